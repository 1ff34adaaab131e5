"""Rows of the table of `service_histories`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from bench.service.rig.histories.faults import FAULTS, wanted
from bench.service.rig.histories.pages import Page, Pages
from bench.service.rig.histories.rows import HEADER, OK, Expected, Seen, problems, row, table
from bench.service.rig.histories.truth import Arrivals, late_intervals, seconds_of
from tests.fakes.alert_receivers import Request

EXPECTED: Final = Expected("dead-source", 1, frozenset({"source unavailable"}), is_exempt=False)
PAGE: Final = Page(120.0, "HeadraceSourceAway", "critical", "", True, "the source is away", "why")
INCIDENT: Final = {
    "datastream": "orders",
    "cause": "source unavailable",
    "bad_seconds": 58.0,
    "timeline": [
        {"phase": "detected", "time_ms": 120_000, "text": "away"},
        {"phase": "recovered", "time_ms": 170_000, "text": "well"},
    ],
}
SEEN: Final = Seen(100.0, 160.0, [PAGE], [INCIDENT], {"orders": 60.0, "archive": 0.0})


def test_records_are_late_from_their_objective_until_they_arrive() -> None:
    arrivals = Arrivals()
    for sent, arrived in ((0.0, 1.0), (1.0, 11.0), (2.0, 11.5), (20.0, 24.0)):
        arrivals.note(sent, arrived, 3.0)
    found = late_intervals(arrivals.late, 3.0, 5.0, 100.0)
    assert found == [(5.0, 11.5), (23.0, 24.0)]
    assert seconds_of(found) == 7.5
    assert (arrivals.newest, arrivals.newest_age) == (24.0, 4.0)
    assert late_intervals([], 3.0, 0.0, 9.0) == []


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (SEEN, ""),
        (replace(SEEN, pages=[PAGE, replace(PAGE, name="Other")]), "2 pages"),
        (replace(SEEN, pages=[replace(PAGE, at=170.0)]), "after recovery"),
        (replace(SEEN, pages=[PAGE, replace(PAGE, severity="warning", at=170.0)]), ""),
        (replace(SEEN, pages=[PAGE, replace(PAGE, is_firing=False, at=170.0)]), ""),
        (replace(SEEN, incidents=[{**INCIDENT, "cause": ""}]), "cause none"),
        (replace(SEEN, incidents=[{**INCIDENT, "cause": "source-bound"}]), "cause source-bound"),
        (replace(SEEN, incidents=[{**INCIDENT, "bad_seconds": 20.0}]), "bad seconds"),
        (replace(SEEN, incidents=[INCIDENT, {**INCIDENT, "datastream": "archive"}]), "archive"),
        (replace(SEEN, incidents=[]), "0 bad seconds, 60 true"),
        (replace(SEEN, unrest="an alert fires"), "an alert fires"),
    ],
)
def test_what_is_not_as_expected_is_named(seen: Seen, word: str) -> None:
    found = problems(EXPECTED, seen)
    assert (word in "; ".join(found)) if word else not found
    cells = row(EXPECTED, seen)
    assert len(cells) == len(HEADER)
    assert (cells[-1] == OK) == (not word)


def test_records_that_a_person_delays_are_not_bad() -> None:
    quiet = Expected("pause", 0, frozenset(), is_exempt=True)
    assert problems(quiet, Seen(100.0, 140.0, [], [], {"orders": 40.0})) == []


def test_an_alert_that_is_sent_again_is_one_page() -> None:
    body = (
        '{"alerts": [{"status": "firing", "fingerprint": "f", "startsAt": "2026-01-01T00:00:00Z",'
        ' "labels": {"alertname": "A", "severity": "critical"}, "annotations": {}}]}'
    )
    pages = Pages()
    for text in (body, body, body.replace("firing", "resolved")):
        pages.note(Request("/", {}, text.encode()))
    assert [one.is_firing for one in pages.found] == [True, False]
    assert not pages.firing


def test_faults_have_names_of_their_own_and_unknown_ones_are_refused() -> None:
    assert len({one.name for one in FAULTS}) == len(FAULTS) >= 14
    assert [one.name for one in wanted("pause typo")] == ["pause", "typo"]
    assert wanted("") == list(FAULTS)
    with pytest.raises(SystemExit, match="burst"):
        wanted("burstt")


def test_a_table_has_a_line_for_each_fault() -> None:
    assert len(table([row(EXPECTED, SEEN)]).splitlines()) == 3
