"""Test the cache of stored incidents."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.errors import TimedOut
from monitor.records.reader import RecordReader
from monitor.records.record import IncidentRecord
from tests.fakes.clock import ManualClock


class Topic:
    def __init__(self) -> None:
        self.reads = 0
        self.error: TimedOut | None = None

    def read(self) -> Sequence[IncidentRecord]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return [IncidentRecord(str(opened), "orders", "east", opened) for opened in (2, 3, 1)]


def test_it_is_read_once_in_two_seconds_and_the_newest_is_first() -> None:
    topic, clock = Topic(), ManualClock()
    reader = RecordReader(topic.read, clock)
    assert [one.opened_ms for one in reader()] == [3, 2, 1]
    clock.advance(1.9)
    reader()
    assert topic.reads == 1
    clock.advance(0.2)
    reader()
    assert topic.reads == 2


def test_a_cluster_that_is_away_is_asked_no_more_often() -> None:
    topic, clock = Topic(), ManualClock()
    topic.error = TimedOut("no answer", advice="start it")
    reader = RecordReader(topic.read, clock)
    for _ in range(3):
        with pytest.raises(TimedOut, match="no answer") as caught:
            reader()
        assert caught.value.advice == "start it"
    assert topic.reads == 1
    topic.error = None
    clock.advance(2.0)
    assert len(reader()) == 3
