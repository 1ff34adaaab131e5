"""Distinction between partial and complete results."""

from __future__ import annotations

from mirror.errors import Unreachable
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from pmp.loads.wholeness import CatchingUp, Positions, Progress, lost_rows
from tests.fakes.clock import ManualClock


def report(**measured_at_ms: int | None) -> LoadReport:
    return LoadReport(
        {TopicPartition(t, 0): PartitionLoad(1.0, measured_at_ms=at) for t, at in measured_at_ms.items()}, "p"
    )


def test_samples_that_were_known_are_still_there_or_too_old() -> None:
    before = report(a=100, b=50, c=None)
    assert lost_rows(before, report(a=100, b=60, c=5), 50) == ""
    assert lost_rows(before, report(a=200), 51) == ""  # b has left the window
    assert lost_rows(report(), report(), 0) == ""


def test_a_partition_that_ends_earlier_or_is_gone_shows_that_rows_are_missing() -> None:
    before = report(a=100, b=50)
    assert lost_rows(before, report(a=99, b=50), 50).startswith("1 of 2 ")
    assert lost_rows(before, report(a=100), 50).endswith("such as b-0")
    assert lost_rows(before, report(a=None, b=None), 50).startswith("2 of 2")


class Topic:
    """The ends of a topic and the positions read; or a server that does not respond."""

    def __init__(self) -> None:
        self.ends: Positions = {0: 10, 1: 5}
        self.read: Positions = {0: 10, 1: 5}
        self.is_away = False
        self.asked = 0

    def progress(self) -> Progress:
        return Progress(lambda: self._answer(self.ends), lambda: self._answer(self.read))

    def _answer(self, positions: Positions) -> Positions:
        self.asked += 1
        if self.is_away:
            raise Unreachable("controller away")
        return positions


def test_pinot_has_caught_up_when_it_has_read_what_was_there_at_first() -> None:
    topic = Topic()
    topic.read = {0: 3}
    catching_up = CatchingUp(topic.progress(), ManualClock())
    assert catching_up.problem().startswith("12 records")
    topic.ends, topic.read = {0: 1000, 1: 1000}, {0: 11, 1: 4}
    assert catching_up.problem().startswith("1 record")
    topic.read = {0: 11, 1: 5}
    assert catching_up.problem() == ""
    asked, topic.read = topic.asked, {}
    assert (catching_up.problem(), topic.asked) == ("", asked)
    catching_up.suspect()
    assert catching_up.problem().startswith("2000 records")


def test_a_partition_whose_end_is_unavailable_is_named_and_checked_later() -> None:
    topic, clock = Topic(), ManualClock()
    topic.ends = {0: 10}
    topic.read = {0: 9, 1: 5}
    catching_up = CatchingUp(topic.progress(), clock)
    assert catching_up.problem().startswith("1 record")
    topic.read = {0: 10, 1: 5}
    assert catching_up.problem() == ""
    assert "partitions of its topic: 1" in catching_up.unknown
    asked = topic.asked
    assert (catching_up.problem(), topic.asked) == ("", asked)
    topic.ends = {0: 50, 1: 7}
    clock.advance(60)
    assert catching_up.problem().startswith("2 records")
    assert catching_up.unknown == ""
    topic.read = {0: 10, 1: 7}
    assert catching_up.problem() == ""


def test_where_nobody_can_be_asked_it_is_not_known_and_asked_again_later() -> None:
    topic, clock = Topic(), ManualClock()
    topic.is_away = True
    catching_up = CatchingUp(topic.progress(), clock)
    assert (catching_up.problem(), catching_up.unknown) == ("", "controller away")
    asked = topic.asked
    assert (catching_up.problem(), topic.asked) == ("", asked)
    topic.is_away = False
    clock.advance(60)
    assert (catching_up.problem(), catching_up.unknown) == ("", "")
    assert CatchingUp(None, clock).problem() == ""
