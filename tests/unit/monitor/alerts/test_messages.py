"""Test the content of alert messages."""

from __future__ import annotations

from typing import Final

from monitor.alerts.alert import Alert, AlertNotice, Style, rfc3339
from monitor.alerts.catalogue import BLIND, LATE
from monitor.alerts.deliveries.messages import subject_of, text_of, webhook_body

STYLE: Final = Style({"team": "ingest"}, "https://docs/{alertname}/", "https://here")


def late(name: str, ended_ms: int | None = None) -> AlertNotice:
    alert = Alert(LATE, f"{name} is late", "p99 is 9 s", 1_000, name, "east", "rebalance r-1 asked for")
    return STYLE.notice(alert, ended_ms)


def test_labels_say_which_alert_it_is_and_nothing_that_changes() -> None:
    notice = late("orders")
    assert notice.labels == {
        "alertname": "HeadraceLatencyObjectiveBreached",
        "severity": "critical",
        "service": "headrace",
        "datastream": "orders",
        "cluster": "east",
        "team": "ingest",
    }
    assert notice.key == late("orders", 5_000).key != late("clicks").key


def test_annotations_say_what_is_known() -> None:
    assert late("orders").annotations == {
        "summary": "orders is late",
        "description": "p99 is 9 s",
        "action": "rebalance r-1 asked for",
        "runbook_url": "https://docs/HeadraceLatencyObjectiveBreached/",
    }
    assert late("a/b c").link == "https://here/v1/datastreams/a%2Fb%20c"


def test_an_alert_of_the_whole_service_has_no_empty_labels() -> None:
    notice = Style({}, "", "http://here").notice(Alert(BLIND, "nothing can be judged", "away", 1_000))
    assert "" not in {*notice.labels.values(), *notice.annotations.values()}
    assert notice.annotations["runbook_url"] == "docs/runbooks/HeadraceNothingJudged.md"
    assert notice.link == "http://here/v1/health"


def test_no_alert_ends_before_it_began() -> None:
    """The wall clock may have been set back."""
    assert late("orders", 500).ended_ms == 1_000


def test_moments_are_those_of_rfc_3339() -> None:
    assert rfc3339(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert rfc3339(10**15) == "9999-12-31T23:59:59.000Z", "later times are clamped"


def test_a_subject_says_what_the_alerts_have_in_common() -> None:
    assert subject_of([late("orders")]) == f"[1 firing] {LATE.name} east orders"
    both = [late("orders"), late("clicks", 5_000)]
    assert subject_of(both) == f"[1 firing, 1 resolved] {LATE.name} east"
    assert len(subject_of([late("x" * 5_000)])) == 150


def test_a_text_shows_some_and_counts_the_rest() -> None:
    text = text_of([late(f"d{number}", 5_000 if number < 3 else None) for number in range(30)])
    assert text.startswith("[27 firing, 3 resolved] ")
    assert "d3 is late (since 1970-01-01T00:00:01.000Z)" in text
    assert "rebalance r-1 asked for" in text
    assert text.endswith("… and 10 more")
    over = text_of([late("d", 5_000)])
    assert ": 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:05.000Z" in over
    assert "p99" not in over


def test_a_webhook_has_every_alert() -> None:
    body = webhook_body("chat", ["alertname", "nothing"], [late(f"d{number}") for number in range(30)])
    assert len(body["alerts"]) == 30
    assert body["groupLabels"] == {"alertname": "HeadraceLatencyObjectiveBreached"}
    assert webhook_body("chat", [], [late("d", 5_000)])["status"] == "resolved"
