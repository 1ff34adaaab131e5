"""Gathers one picture of the world: for the leader's tick, and for a preview that changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from mirror.coordination.definitions import DefinitionStore, StoredDatastream
from mirror.coordination.membership import Membership
from mirror.coordination.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.coordination.planning import Decision, World, decide, groups_to_plan
from mirror.coordination.requests import RebalanceRequest, RequestQueue
from mirror.errors import HeadraceError
from mirror.instance.surroundings import Surroundings
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import LoadReport, TaskCapacity
from mirror.model.topics import TopicPartition
from mirror.ports import Clock, LoadProvider, Planner, Watch

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LeaderStores:
    """The stores a leader reads."""

    membership: Membership
    definitions: DefinitionStore
    plans: PlanStore
    requests: RequestQueue


@dataclass(frozen=True)
class Planning:
    """How tasks are decided."""

    planner: Planner
    provider: LoadProvider
    capacity: TaskCapacity


class Outlook:
    """Used by one thread at a time; `preview` may be called by any number."""

    def __init__(
        self, stores: LeaderStores, planning: Planning, surroundings: Surroundings, clock: Clock
    ) -> None:
        self.stores = stores
        self.surroundings = surroundings
        self._planning = planning
        self._clock = clock
        self._task_loads: dict[TaskName, float] = {}
        self._previewing = threading.Lock()

    def world(
        self, stored: Sequence[StoredDatastream], plan: StoredPlan, watch: Watch | None = None
    ) -> World:
        """Everything a plan depends on but loads; the watch fires when requests or instances change."""
        sources = sorted({one.datastream.source for one in stored})
        return World(
            datastreams=tuple(one.datastream for one in stored),
            live=self.stores.membership.live(watch),
            plan=plan.plan,
            topics=self.surroundings.topics(sources),
            requests=self.stores.requests.pending(watch),
            task_loads=self._task_loads,
        )

    def decide(self, world: World) -> Decision:
        """Ask for the loads of the groups that must be planned, then plan."""
        world = replace(world, loads=self._loads(world))
        decision = decide(world, self._planning.planner, self._planning.capacity, self._clock.now_ms())
        for group_plan in decision.group_plans.values():
            self._task_loads.update(group_plan.loads_bytes_per_second)
        return decision

    def preview(self, request: RebalanceRequest) -> Decision:
        """What the request would change now. Raises Unreachable."""
        with self._previewing:
            stored = self.stores.definitions.all()
            world = self.world(stored, self.stores.plans.read(NO_PLAN))
            return self.decide(replace(world, requests=(request,)))

    def _loads(self, world: World) -> Mapping[GroupName, LoadReport]:
        reports: dict[GroupName, LoadReport] = {}
        by_group = {one.group: one for one in world.datastreams}
        for group in groups_to_plan(world):
            source = by_group[group].source
            partitions = [
                TopicPartition(topic, number)
                for topic, count in world.topics.get(source, {}).items()
                for number in range(count)
            ]
            try:
                reports[group] = self._planning.provider.loads(source, partitions)
            except HeadraceError as error:  # whatever ails the provider, placement goes on without it
                _log.warning("planning by count", datastream=group, reason=str(error))
        return reports
