"""Outcomes of requests to leaders: each is written once and none is lost, wherever a leader fails.

For schedules of other faults see tests/models/service.py.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from mirror.coordination.operation import Operation as Outcome
from mirror.coordination.operation import halting, waiting
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.coordination.stores.requests import ApplyRequest, MoveRequest, RebalanceRequest, RequestQueue
from mirror.errors import Unreachable
from mirror.model.datastreams.datastream import DatastreamStatus, Halt
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskLimits
from mirror.model.plan import Plan
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance, partitions
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Fault, Operation, failing_write
from tests.fakes.topic_admin import FakeTopicAdmin

NOW_MS = 1_700_000_000_000
ORDERS = GroupName("orders")
WRITES = 12
"""At least the writes of a leader that answers every request."""


class Service:
    """Two instances; the first one leads until its session expires."""

    def __init__(self) -> None:
        self.server = FakeZooKeeper()
        self.clock = ManualClock(NOW_MS)
        self.admin = self.server.session()
        self.definitions = DefinitionStore(self.admin)
        for name in ("orders", "users", "gone"):
            limits = TaskLimits(min_tasks=2)
            self.definitions.create(a_datastream(name, f"{name[0]}", DatastreamStatus.READY, limits=limits))
        self.sessions = self.server.session(), self.server.session()
        self.rigs = [self._rig(name, one) for name, one in zip(("one", "two"), self.sessions, strict=True)]
        for _ in range(3):
            self.tick(0)
        self.asked = self._ask()

    def _rig(self, name: str, session: FakeSession) -> LeaderRig:
        clusters = {SOURCE: FakeTopicAdmin(o=4, u=2, g=2), DESTINATION: FakeTopicAdmin()}
        rig = LeaderRig(session, clusters, self.clock)
        rig.leader.joined(Membership(session).join(an_instance(name)))
        return rig

    def tick(self, number: int) -> None:
        self.clock.advance(31)
        self.rigs[number].leader.tick()

    def _ask(self) -> dict[str, str]:
        """Make requests; return the expected final state of each operation by id."""
        queue = RequestQueue(self.admin)
        made = {
            queue.add(RebalanceRequest(ORDERS, True, "me", "to see", self.clock.now_ms())): "done",
            queue.add(MoveRequest(ORDERS, partitions("o-0"), "two", "me", self.clock.now_ms())): "done",
            queue.add(MoveRequest(ORDERS, partitions("o-1"), "nobody", "me", self.clock.now_ms())): "failed",
            queue.add(ApplyRequest(ORDERS, "p-0000000009", "me", self.clock.now_ms())): "failed",
            self.admin.create("/requests/r-", b"{", sequential=True).rpartition("/")[2]: "failed",
        }
        halt = Halt("tests", self.clock.now_ms(), "me")
        for name, status in (("users", DatastreamStatus.STOPPING), ("gone", DatastreamStatus.DELETING)):
            stored = next(one for one in self.definitions.all().readable if one.datastream.name == name)
            changed = a_datastream(name, f"{name[0]}", status, limits=TaskLimits(min_tasks=2), halt=halt)
            self.definitions.replace(stored, changed)
            operation = halting(changed)
            assert operation is not None
            made[operation.id] = "done"
        return made

    def outcomes(self) -> list[Outcome]:
        return list(OutcomeStore(self.server.session()).newest(self.clock.now_ms()))

    def under_way(self) -> list[str]:
        queued = [waiting(one) for one in RequestQueue(self.server.session()).waiting()]
        halts = [halting(one) for one in self.definitions.all().datastreams]
        running = [one for one in halts if one is not None and one.state == "running"]
        return [one.id for one in (*queued, *running)]

    def plan(self) -> Plan:
        return PlanStore(self.admin, "r").read().plan

    def held_by(self, name: str) -> set[str]:
        tasks = [one for one in self.plan().tasks if one.instance == name]
        return {str(partition) for one in tasks for partition in one.partitions}

    def check_each_is_one(self) -> None:
        """Check that each operation is either pending or has an outcome."""
        found = [one.id for one in self.outcomes()] + self.under_way()
        assert sorted(found) == sorted(self.asked)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("number", range(WRITES))
def test_wherever_the_leader_ends_each_outcome_is_written_once(number: int, after_effect: bool) -> None:
    service = Service()
    service.sessions[0].script = failing_write(number, after_effect=after_effect)
    for _ in range(2):
        with contextlib.suppress(Unreachable):
            service.tick(0)
        service.check_each_is_one()
    service.sessions[0].expire()
    for _ in range(4):
        service.tick(1)
        service.check_each_is_one()
    found = {one.id: one for one in service.outcomes()}
    assert {identity: one.state for identity, one in found.items()} == service.asked
    epoch = service.plan().epoch
    for one in found.values():
        is_planned = one.kind in {"rebalance", "move", "apply"} and one.state == "done"
        assert (one.plan_epoch is not None) == is_planned
        assert one.plan_epoch is None or 1 < one.plan_epoch <= epoch
        assert one.finished_ms is not None
        assert one.sentence


def test_a_leader_that_ends_between_plan_and_outcome_leaves_the_outcome_to_the_next() -> None:
    """Its successor has nothing left to change, and reports the current plan."""
    service = Service()
    for identity in service.under_way():
        service.admin.delete(f"/requests/{identity}")
    asked = MoveRequest(ORDERS, partitions("o-0"), "two", "me", service.clock.now_ms())
    if "o-0" in service.held_by("two"):
        asked = replace(asked, host="one")
    identity = RequestQueue(service.admin).add(asked)
    before = service.plan().epoch
    service.sessions[0].script = breaking_off_before_an_outcome
    with pytest.raises(Unreachable):
        service.tick(0)
    assert (service.plan().epoch, service.outcomes()) == (before + 1, [])
    assert identity in service.under_way()
    service.sessions[0].expire()
    service.tick(1)
    (found,) = [one for one in service.outcomes() if one.id == identity]
    assert (found.state, found.plan_epoch) == ("done", service.plan().epoch)
    assert "o-0" in service.held_by(asked.host)


def breaking_off_before_an_outcome(operation: Operation) -> Fault | None:
    is_outcome = operation.name == "change_together" and operation.path.startswith("/requests/")
    return Fault(after_effect=False) if is_outcome else None
