"""Service state with a datastream and plans as a leader publishes them, for one follower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.membership import Holding, Membership
from mirror.coordination.stores.plan_store import PlanStore, StoredPlan
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from mirror.model.plan import Departure, Plan, TaskPlacement
from tests.builders import a_datastream, a_plan, a_task
from tests.fakes.node_store import FakeZooKeeper

NOBODY_LEFT: Final[Mapping[InstanceName, Departure]] = {}
MINE = a_task("orders-0", ["t-0", "t-1"], "one")
THEIRS = a_task("orders-1", ["t-2"], "two")


class Service:
    """Service state with a datastream, and plans as a leader publishes them."""

    def __init__(self) -> None:
        self.server = FakeZooKeeper()
        session = self.server.session()
        self.members = Membership(session)
        self.definitions = DefinitionStore(session)
        self.definitions.create(a_datastream())
        self._store = PlanStore(session, "leader")

    def publish(
        self, *tasks: TaskPlacement, departed: Mapping[InstanceName, Departure] = NOBODY_LEFT
    ) -> Plan:
        known: StoredPlan = self._store.read()
        plan = replace(a_plan(*tasks, epoch=known.plan.epoch + 1), departed=departed)
        self._store.publish(plan, known)
        return plan

    def holdings(self) -> dict[str, Holding | None]:
        return {one.name: self.members.holding(one) for one in self.members.live()}


def held(epoch: int, *releasing: LaneKey) -> Holding:
    return Holding(Epoch(epoch), frozenset(releasing), frozenset({GroupName("orders")}))
