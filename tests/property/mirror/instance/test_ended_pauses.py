"""Pauses with an expiry: lifted and reported once, despite failing leaders with different clocks.

For schedules of other faults see tests/models/service.py.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.errors import Unreachable
from mirror.model.datastreams.datastream import DatastreamStatus, Halt, PartitionPause
from mirror.model.identifiers import DatastreamName
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Operation, failing_write
from tests.fakes.topic_admin import FakeTopicAdmin

NOW_MS = 1_700_000_000_000
PAUSED = a_datastream(
    topics="t",
    status=DatastreamStatus.PAUSED,
    halt=Halt("tests", 1, "me", NOW_MS + 60_000),
    pauses={"t": PartitionPause(frozenset({1}), "bad", 1, "me", NOW_MS + 60_000)},
)


class TwoLeaders:
    """A leader and its successor, whose clock differs by `skew_ms`."""

    def __init__(self, skew_ms: int = 0) -> None:
        self.server = FakeZooKeeper()
        self.clocks = ManualClock(NOW_MS), ManualClock(NOW_MS + skew_ms)
        self.sessions = self.server.session(), self.server.session()
        self.definitions = DefinitionStore(self.server.session())
        self.definitions.create(PAUSED)
        self.rigs = [
            self._rig(name, session, clock)
            for name, session, clock in zip(("one", "two"), self.sessions, self.clocks, strict=True)
        ]

    def _rig(self, name: str, session: FakeSession, clock: ManualClock) -> LeaderRig:
        rig = LeaderRig(session, {SOURCE: FakeTopicAdmin(t=2), DESTINATION: FakeTopicAdmin()}, clock)
        rig.leader.joined(Membership(session).join(an_instance(name)))
        rig.leader.tick()
        return rig

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def resumed(self) -> list[str]:
        events = EventLog(self.server.session()).newest(1_000)
        return [one.sentence for one in events if "resumed" in one.sentence]

    def check(self) -> None:
        found = self.definitions.get(DatastreamName("orders")).datastream
        assert (found.status, found.halt, found.pauses) == (DatastreamStatus.READY, None, {})
        (told,) = self.resumed()
        assert told.startswith("resumed ")
        assert "t:1 (" in told


@pytest.mark.parametrize("skew_ms", [0, -30_000, 30_000])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_wherever_the_leader_ends_it_is_lifted_and_told_of_once(
    number: int, after_effect: bool, skew_ms: int
) -> None:
    both = TwoLeaders(skew_ms)
    both.advance(61)
    both.sessions[0].script = failing_write(number, after_effect=after_effect)
    with contextlib.suppress(Unreachable):
        both.rigs[0].leader.tick()
    both.sessions[0].expire()
    both.advance(31)
    for _ in range(3):
        both.rigs[1].leader.tick()
    both.check()


def test_who_has_a_clock_behind_lifts_nothing_again_nor_a_later_pause() -> None:
    both = TwoLeaders(skew_ms=-30_000)
    both.advance(61)
    both.rigs[0].leader.tick()
    both.check()
    stored = both.definitions.get(DatastreamName("orders"))
    again = replace(PAUSED, pauses={}, halt=Halt("again", 1, "me", NOW_MS + 70_000))
    both.definitions.replace(stored, again)
    both.sessions[0].expire()
    both.rigs[1].leader.tick()
    assert both.definitions.get(DatastreamName("orders")).datastream == again
    assert len(both.resumed()) == 1


def test_a_pause_that_somebody_changes_meanwhile_is_not_lifted() -> None:
    both = TwoLeaders()
    both.advance(61)
    later = replace(PAUSED, pauses={}, halt=Halt("longer", 1, "me", NOW_MS + 10**6))

    def just_before(operation: Operation) -> None:
        if operation.name == "change_together":
            both.definitions.replace(both.definitions.get(DatastreamName("orders")), later)

    both.sessions[0].script = just_before
    both.rigs[0].leader.tick()
    assert both.definitions.get(DatastreamName("orders")).datastream == later
    assert both.resumed() == []
