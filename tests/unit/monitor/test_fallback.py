"""Test measurements from one place, with a fallback while it does not respond."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mirror.errors import AnalyticsError, HeadraceError, InvalidRequest, TopicMissing, Unreachable
from mirror.model.latency import LATENCY_BUCKETS
from monitor.burn.pieces import TimeRangePiece
from monitor.fallback import FallbackMeasurements, FallbackPast
from monitor.latency import LatencyObservation, Observations, Source
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import TopicLatencySums
from tests.fakes.clock import ManualClock

NOTHING = (0,) * LATENCY_BUCKETS


class Place:
    """A place from which measurements are read."""

    remark = ""

    def __init__(self, lag_ms: int) -> None:
        self.seen = {Source("g", "c"): {"t": LatencyObservation(0, NOTHING, lag_ms)}}
        self.failure: HeadraceError | None = None
        self.looks = 0

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        return None

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        assert window_seconds == 60.0
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return self.seen

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return TopicLatencySums(
            [("g", "c", "t")], [piece.length_ms], {age: [0.0] for age in milliseconds}, {}
        )


@pytest.mark.parametrize("failure", [Unreachable("no answer"), AnalyticsError("half an answer")])
def test_the_second_is_asked_while_the_first_does_not_answer(failure: HeadraceError) -> None:
    clock, first, second = ManualClock(), Place(1), Place(2)
    both = FallbackMeasurements(first, second, clock)
    assert both.observe(60.0) == first.seen
    assert (both.remark, second.looks) == ("", 0)
    first.failure = failure
    assert both.observe(60.0) == second.seen
    assert both.remark == str(failure)
    clock.advance(59)
    assert both.observe(60.0) == second.seen
    assert first.looks == 2  # an unreachable place is not tried at every look
    clock.advance(1)
    first.failure = None
    assert both.observe(60.0) == first.seen
    assert both.remark == ""


def test_when_neither_answers_the_error_is_that_of_the_second() -> None:
    first, second = Place(1), Place(2)
    first.failure, second.failure = Unreachable("no answer"), TopicMissing("no topic")
    both = FallbackMeasurements(first, second, ManualClock())
    with pytest.raises(TopicMissing):
        both.observe(60.0)
    assert both.remark == "no answer"


def test_what_does_not_pass_by_itself_is_not_hidden() -> None:
    first, second = Place(1), Place(2)
    first.failure = InvalidRequest("a wrong query")
    with pytest.raises(InvalidRequest):
        FallbackMeasurements(first, second, ManualClock()).observe(60.0)


def test_pieces_of_the_past_are_read_where_measurements_are() -> None:
    clock, first, second = ManualClock(), Place(1), Place(2)
    both = FallbackPast(first, second, clock)
    piece = TimeRangePiece(0, 60_000)
    assert both.past(piece, [1_000]).records == [60_000]
    assert second.looks == 0
    first.failure = Unreachable("no answer")
    assert [both.past(piece, [1_000]).records for _ in range(5)] == [[60_000]] * 5
    assert (first.looks, second.looks) == (2, 5), "an unreachable place is tried once a minute"
    second.failure = AnalyticsError("too old")
    with pytest.raises(AnalyticsError, match="too old"):
        both.past(piece, [1_000])
    clock.advance(60)
    first.failure = None
    both.past(piece, [1_000])
    assert (first.looks, second.looks) == (3, 6)
