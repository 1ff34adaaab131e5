"""Test the order in which an outbox sends its messages, and what it continues from a previous monitor."""

from __future__ import annotations

import pytest

from monitor.alerts.alert import AlertNotice
from monitor.alerts.deliveries.outbox import NEVER, Outbox, Schedule


def a_notice(name: str) -> AlertNotice:
    return AlertNotice({"alertname": name}, {}, "http://x", 1_000)


def offer(box: Outbox, now: float, *names: str) -> None:
    notices = [a_notice(name) for name in names]
    box.offer({one.key: one for one in notices}, [], now)


def names_of(notices: object) -> list[str]:
    assert isinstance(notices, list)
    return [one.labels["alertname"] for one in notices]


@pytest.mark.parametrize("answer", ["failed", "refused"])
@pytest.mark.parametrize("is_grouped", [True, False])
def test_a_message_that_is_never_accepted_delays_no_other_for_good(answer: str, is_grouped: bool) -> None:
    """Mail with one text may be rejected as spam. `is_grouped`: one group for each alert."""
    group_of = (lambda one: one.labels["alertname"]) if is_grouped else (lambda _: None)
    box, now, sent = Outbox(Schedule(0.0, 600.0, 40.0, most_at_once=1), group_of), 0.0, set[str]()
    for _ in range(8):
        offer(box, now, "poison", "b", "c")
        now = max(now, box.next_at())
        notices = box.take(now)
        (name,) = names_of(notices)
        if name == "poison":
            getattr(box, answer)(now)
        else:
            sent.add(name)
            box.delivered(notices, now)
    assert sent == {"b", "c"}


def test_an_alert_that_this_monitor_has_sent_is_not_sent_again_for_its_predecessor() -> None:
    """The alerts of a predecessor may be read long after the first evaluation."""
    box = Outbox(Schedule(10.0, 600.0))
    offer(box, 0.0, "a", "b")
    box.delivered(box.take(10.0), 10.0)
    box.restore([a_notice("a"), a_notice("c")], [], 20.0)
    offer(box, 20.0, "a", "b", "c")
    assert names_of(box.take(30.0)) == ["c"]
    assert box.accepted == {a_notice("a").key, a_notice("b").key}


def test_an_outbox_without_pending_alerts_waits_for_none() -> None:
    box = Outbox(Schedule(0.0, 600.0))
    offer(box, 0.0, "a")
    box.take(0.0)
    box.failed(0.0)
    assert box.next_at() < NEVER
    offer(box, 1.0)
    assert box.next_at() == NEVER, "the monitor no longer confirms the alert"


@pytest.mark.parametrize("most", [1, 3, 20])
@pytest.mark.parametrize("poison", ["", "n7"])
def test_a_message_that_is_rejected_is_sent_in_parts(most: int, poison: str) -> None:
    """A receiver limits the size of a message, or cannot accept one of its alerts."""
    box, names, sent, now = Outbox(Schedule(0.0, 600.0)), [f"n{number}" for number in range(20)], [], 0.0
    for _ in range(100):
        offer(box, now, *names)
        notices = box.take(now)
        if not notices:
            break
        if len(notices) > most or poison in names_of(notices):
            box.rejected(notices, now)
        else:
            sent += names_of(notices)
            box.delivered(notices, now)
    assert not box.take(now), "no alert is retried at once forever"
    assert sorted(sent) == sorted(set(names) - {poison})
