"""Reading of the times at which records were late."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pytest

from mirror.errors import AnalyticsError, HeadraceError, Unreachable
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.latency import LatencyVerdict, ObjectiveStatus, ObjectiveSubject, Source
from monitor.objectives.late_reader import LateTimes
from monitor.objectives.late_times import LateSpan, LateTopics, TopicLateness

NOW_MS: Final = 1_700_000_000_000
SOURCE: Final = Source("orders", "east")
ORDERS, CLICKS = DatastreamName("orders"), DatastreamName("clicks")
LATE: Final = LatencyVerdict(ObjectiveStatus.BREACHED, 9.0, "late", limit_ms=3_000)
SUBJECTS: Final = {
    ORDERS: ObjectiveSubject(LatencyObjective(3_000), SOURCE, TopicSelection("t")),
    CLICKS: ObjectiveSubject(
        None,
        Source("clicks", "east"),
        TopicSelection("t"),
        objectives=(Objective(1_000, 99, window_seconds=300),),
    ),
}


class Reports:
    """Reports of one topic, which was late for ten seconds."""

    def __init__(self) -> None:
        self.failure: HeadraceError | None = None
        self.found: LateTopics | None = {
            SOURCE: {"t": TopicLateness([LateSpan(NOW_MS - 13_000, NOW_MS, 13_000)], 13_000)}
        }
        self.asked: list[tuple[frozenset[Source], int, int]] = []

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        self.asked.append((frozenset(sources), since_ms, least_ms))
        if self.failure is not None:
            raise self.failure
        return self.found


def test_nothing_is_read_while_objectives_are_met() -> None:
    reports = Reports()
    well = LatencyVerdict(ObjectiveStatus.WITHIN, 1.0, "well")
    assert LateTimes(reports, 15.0).read(SUBJECTS, {ORDERS: well, CLICKS: well}, NOW_MS) == {}
    assert reports.asked == []


def test_a_new_monitor_reads_further_back_than_its_window() -> None:
    reports = Reports()
    times = LateTimes(reports, 15.0)
    found = times.read(SUBJECTS, {ORDERS: LATE}, NOW_MS)
    assert found[ORDERS].intervals == ((NOW_MS - 10_000, NOW_MS),)
    times.read(SUBJECTS, {ORDERS: LATE}, NOW_MS + 60_000)
    assert reports.asked == [
        (frozenset({SOURCE}), NOW_MS - 120_000, 3_000),
        (frozenset({SOURCE}), NOW_MS + 60_000 - 15_000, 3_000),
    ]


def test_the_longest_window_of_a_late_datastream_counts() -> None:
    """Its verdict lasts as long as that."""
    reports, clicks = Reports(), LatencyVerdict(ObjectiveStatus.BREACHED, 9.0, "late", limit_ms=1_000)
    times = LateTimes(reports, 15.0)
    times.read(SUBJECTS, {}, NOW_MS)
    times.read(SUBJECTS, {ORDERS: LATE, CLICKS: clicks}, NOW_MS + 100_000)
    ((sources, since_ms, least_ms),) = reports.asked
    assert (len(sources), since_ms, least_ms) == (2, NOW_MS + 100_000 - 300_000, 1_000)


@pytest.mark.parametrize("failure", [Unreachable("no answer"), AnalyticsError("too many rows"), None])
def test_a_store_that_cannot_be_read_leaves_the_times_unknown(failure: HeadraceError | None) -> None:
    reports = Reports()
    reports.failure, reports.found = failure, None
    assert LateTimes(reports, 15.0).read(SUBJECTS, {ORDERS: LATE}, NOW_MS) == {}
