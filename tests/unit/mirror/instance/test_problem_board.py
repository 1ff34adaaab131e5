"""Test the events about a problem while it lasts."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mirror.coordination.stores.problems import ProblemStore
from mirror.errors import HeadraceError, Unreachable
from mirror.instance.health import Health
from mirror.instance.problem_board import ProblemBoard
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.metrics import PlacementEvent
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper

NAME, ME = DatastreamName("orders"), InstanceName("one")


class LeaderTicks:
    """Ticks of a leader, each with the reason of a problem, and the events of all ticks."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = ProblemStore(FakeZooKeeper().session())
        self.events: list[PlacementEvent] = []
        self.board = self.elect()

    def elect(self) -> ProblemBoard:
        self.board = ProblemBoard(self.store, Health(), self.clock)
        return self.board

    def look(self, reason: str = "", *, is_away: bool = False) -> None:
        def tell(events: tuple[PlacementEvent, ...]) -> None:
            if is_away:
                raise Unreachable("nobody hears it")
            self.events += events

        self.clock.advance(1.0)
        self.board.begin()
        if reason:
            self.board.note(HeadraceError(reason), NAME)
        self.board.settle({}, ME, tell)

    @property
    def told(self) -> list[str]:
        return [event.sentence.removeprefix("problem: ") for event in self.events]


def test_another_reason_is_told_once_and_other_numbers_are_not() -> None:
    looks = LeaderTicks()
    for reason in ("apart: died 1", "apart: died 2", "held: died 5", "apart: died 2"):
        looks.look(reason)
        looks.look(reason)
    assert looks.told == ["apart: died 1", "held: died 5"]
    looks.elect()
    looks.look("apart: died 2")
    assert len(looks.told) == 2, "a new leader continues from the stored problem"
    looks.look()
    looks.look("held: died 5")
    assert looks.told[2:] == ["resolved: apart: died 2", "held: died 5"]
    assert len({event.event_key for event in looks.events}) == len(looks.events)


def test_reasons_that_alternate_are_logged_once_each() -> None:
    looks = LeaderTicks()
    with capture_logs() as log:
        for reason in ["no response within 5 s", "accepts connections only", "no response within 6 s"] * 4:
            looks.look(reason)
        looks.look()
        looks.look("no response within 5 s")
    logged = [line["reason"] for line in log if line["event"] == "datastream excluded"]
    assert logged == ["no response within 5 s", "accepts connections only", "no response within 5 s"]


def test_reasons_that_change_at_every_look_do_not_fill_the_events() -> None:
    looks = LeaderTicks()
    for name in "abcdefghijkl":
        looks.look(f"topic {name} stands still")
    assert looks.told == [f"topic {name} stands still" for name in "abcde"]


def test_a_reason_that_could_not_be_told_is_told_at_the_next_look() -> None:
    looks = LeaderTicks()
    looks.look("first")
    with pytest.raises(Unreachable):
        looks.look("second", is_away=True)
    looks.look("second")
    assert looks.told == ["first", "second"]


def test_what_comes_and_goes_is_shown_behind_a_remark_and_told_to_nobody() -> None:
    looks = LeaderTicks()
    for mention in ("a quota holds it back", ""):
        looks.board.begin()
        looks.board.remark("matches nothing", NAME)
        if mention:
            looks.board.mention(mention, NAME)
        looks.board.settle({}, ME, looks.events.extend)
        shown = looks.board.problems[NAME]
        assert shown.reason == "; ".join(filter(None, ("matches nothing", mention)))
        assert not shown.sets_aside
    assert len(looks.events) == 1
