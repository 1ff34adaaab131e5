"""Test a ZooKeeper that takes seconds for every response."""

from __future__ import annotations

import pytest

from mirror.model.nodes import SessionState
from tests.builders import a_task
from tests.fakes.instances import SESSION_TIMEOUT_SECONDS, FollowerRig
from tests.fakes.node_store import Fault, Operation
from tests.fakes.planned import MINE, THEIRS, Service

_TICK = 0.25


class Slow:
    """Delay of every request by `seconds`; heartbeats are in flight meanwhile and block nothing."""

    def __init__(self, rig: FollowerRig, seconds: float) -> None:
        self._rig = rig
        self._seconds = seconds
        self._beats: list[float] = []
        rig.contact.on_beat, rig.contact.seconds, rig.script = self._beat, seconds, self._wait
        self.longest_gap = -1.0

    def _beat(self) -> None:
        self._beats.append(self._rig.clock.monotonic())
        self._arrive()

    def _arrive(self) -> None:
        now = self._rig.clock.monotonic()
        arrived = [sent for sent in self._beats if sent + self._seconds <= now]
        self._rig.contact.moment = max([self._rig.contact.moment, *arrived])

    def _wait(self, _operation: Operation) -> Fault | None:
        until = self._rig.clock.monotonic() + self._seconds
        while self._rig.clock.monotonic() < until:
            self._rig.clock.advance(_TICK)
            self._arrive()
            self._rig.follower.attend()
            late = self._rig.clock.monotonic() - self._rig.workers.lease_until
            self.longest_gap = max(self.longest_gap, late)
        return None


@pytest.fixture
def service() -> Service:
    return Service()


def test_lanes_copy_on_while_an_iteration_takes_longer_than_the_lease(service: Service) -> None:
    service.publish(MINE, THEIRS)
    rig = FollowerRig(service.server)
    rig.run_loop()
    slow = Slow(rig, 2.0)
    began = rig.clock.monotonic()
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1"], "two"))
    rig.run_loop()
    assert rig.clock.monotonic() - began > SESSION_TIMEOUT_SECONDS * 0.7, "all in one iteration"
    assert slow.longest_gap < 0, "the lease never expired"
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]
    assert rig.workers.copying
    part = rig.health.conditions()["coordination session"]
    assert part.is_well
    assert "2.0 s" in part.sentence
    rig.contact.seconds = 0.0
    rig.run_loop()
    assert "coordination session" not in rig.health.conditions()


def test_what_waits_in_another_thread_extends_nothing(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.follower.attend()
    assert rig.workers.lease_until == 0.0


def test_an_answer_to_the_session_that_followed_ours_extends_no_lease(service: Service) -> None:
    """The session has ended during the current iteration."""
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    until = rig.workers.lease_until
    rig.follower.session_changed(SessionState.LOST)
    rig.clock.advance(1.0)
    rig.contact.moment = rig.clock.monotonic()
    rig.follower.attend()
    assert rig.workers.lease_until == until


def test_an_iteration_that_waits_for_longer_than_the_lease_is_not_well(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    seen: list[bool] = []

    def wait(_operation: Operation) -> Fault | None:
        rig.clock.advance(SESSION_TIMEOUT_SECONDS)
        rig.follower.attend()
        seen.append(rig.health.conditions()["coordination session"].is_well)
        return Fault(after_effect=False)

    rig.contact.seconds, rig.script = SESSION_TIMEOUT_SECONDS, wait
    service.publish(a_task("orders-0", ["t-0"], "two"))
    rig.follower.wake()
    rig.run_loop()
    assert seen
    assert not any(seen)
    rig.script, rig.contact.seconds = (lambda _: None), 0.0
    rig.run_loop(3)
    assert "coordination session" not in rig.health.conditions()
