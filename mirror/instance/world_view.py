"""Gathers one picture of the world: for the leader's tick, and for a preview that changes nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import structlog

from mirror.coordination.beginnings.store import FirstPartitionsStore
from mirror.coordination.effects import LaneEffect, Standing, effects
from mirror.coordination.operations.outcome_store import OutcomeStore
from mirror.coordination.planning import Decision, LastPlanning, World, decide, groups_to_plan
from mirror.coordination.proposed.proposal_store import ProposalStore
from mirror.coordination.routing.routes import Verdict
from mirror.coordination.stores.definitions import DefinitionCache, DefinitionStore
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import LatestPlan, PlanStore
from mirror.coordination.stores.problems import ProblemStore, TroubleStore, reason_of
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, RequestQueue
from mirror.coordination.task_placement import TaskPlacementRules
from mirror.instance.capacity.in_force import CapacityBook
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.health import Health
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.group_loads import LoadGathering, Observed, partitions_of, wanted_of
from mirror.instance.loads.keeper import MemoryKeeper
from mirror.instance.loads.observations import NEWEST, LoadMemory
from mirror.instance.loads.providers import GroupSources, LoadProviders
from mirror.instance.loads.store import ObservationStore
from mirror.instance.loads.watch import LoadWatch
from mirror.instance.uncopied.backlog import positions_of
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.lifecycle import activated
from mirror.model.identifiers import DatastreamName, GroupName, TaskName
from mirror.model.load import LoadLevel, LoadSource, TaskCapacity
from mirror.model.plan import Move, Plan
from mirror.model.sizing.capacity import CapacityInUse
from mirror.model.sizing.freeze import FreezeWindow, frozen_by
from mirror.model.topics import SourcePosition, TopicPartition
from mirror.ports import Clock, Planner, Watch

_log = structlog.get_logger(__name__)
_RULES: Final = TaskPlacementRules()
_LONGEST_WAIT_MS: Final = 30_000
"""How long a request waits for a load provider that is slow; then it is planned without."""
_GROUPS_A_TICK: Final = 20
_TRIES: Final = 30
"""Ticks in which a provider that did not answer is asked again for an observation."""


@dataclass(frozen=True)
class LeaderStores:
    """The stores a leader reads."""

    membership: Membership
    definitions: DefinitionStore
    plans: PlanStore
    requests: RequestQueue
    problems: ProblemStore
    troubles: TroubleStore
    observations: ObservationStore
    assessments: AssessmentStore
    proposals: ProposalStore
    outcomes: OutcomeStore
    beginnings: FirstPartitionsStore


Judgement = Callable[[Sequence[Datastream], Plan], Verdict]
"""What of all datastreams must not be mirrored as things are now, and why."""


@dataclass(frozen=True)
class Planning:
    """How tasks are decided. `interval_seconds`: between observations of the loads; `refresh_seconds`:
    between looks at those that are shown, infinite: none. `capacities`: of groups; None: all have `capacity`.
    `freezes`: in which nothing moves that need not."""

    planner: Planner
    providers: LoadProviders
    capacity: TaskCapacity
    interval_seconds: float = 600.0
    rules: TaskPlacementRules = _RULES
    memory: LoadMemory = field(default_factory=LoadMemory)
    capacities: CapacityBook | None = None
    freezes: tuple[FreezeWindow, ...] = ()
    refresh_seconds: float = 15.0


@dataclass(frozen=True)
class UpdatePreview:
    """What a change of definitions would do. `decision`: why there are these tasks then. `carried`: bytes per
    second of the lanes that would not just go on, `positions`: at the source, of those that would start, as
    far as they are known. `remarks`: about expressions of the changed definitions."""

    before: Standing
    after: Standing
    decision: Decision
    carried: Mapping[LaneKey, float] = field(default_factory=dict)
    positions: Mapping[LaneKey, SourcePosition] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @cached_property
    def effects(self) -> tuple[LaneEffect, ...]:
        """The lanes that would not just go on."""
        return effects(self.before, self.after)

    @cached_property
    def starting(self) -> Mapping[LaneKey, LaneSpec]:
        """The lanes that would start."""
        will = self.after.lanes()
        return {one.key: will[one.key][1] for one in self.effects if one.before is None}


class WorldView:
    """Used by one thread at a time; `preview` may be called by any number."""

    def __init__(
        self,
        stores: LeaderStores,
        planning: Planning,
        topic_discovery: TopicDiscovery,
        clock: Clock,
        judgement: Judgement,
    ) -> None:
        self.stores = stores
        self.judgement = judgement
        self.topic_discovery = topic_discovery
        self._planning = planning
        self._clock = clock
        self._memory = planning.memory
        self._gathering = LoadGathering(planning.providers, planning.memory, clock, planning.refresh_seconds)
        self.keeper = MemoryKeeper(planning.memory, stores.observations, clock)
        self._next_turn: float | None = None
        self._waiting: list[GroupName] = []
        self._tries: dict[LoadSource, int] = {}
        self._observed: dict[LoadSource, Observed] = {}
        self._task_loads: dict[TaskName, float] = {}
        self._last: Mapping[GroupName, LastPlanning] = {}
        self._previewing = threading.Lock()
        self._latest_plan = LatestPlan(stores.plans)
        self._latest_definitions = DefinitionCache(stores.definitions, lambda: None)

    def loads_of(
        self, moves: Sequence[Move], datastreams: Sequence[Datastream]
    ) -> Mapping[tuple[GroupName, TopicPartition], float]:
        """Bytes per second of what moves as last known, without what nobody has measured."""
        sources = self._planning.providers.choose(datastreams).of
        found = {}
        for one in (one for one in moves if one.group in sources):
            load = self._memory.newest.of(sources[one.group], one.partition)
            if load is not None:
                found[one.group, one.partition] = load
        return found

    def load_watch(self, health: Health) -> LoadWatch:
        """A watch over the providers that loads are asked of."""
        return LoadWatch(self._planning.providers.freshness_of, self._memory.newest, self._clock, health)

    def refresh_loads(self, world: World) -> None:
        """Have what is shown of loads as new as the measurements. Only for the leader."""
        self._gathering.refresh(world, self._planning.providers.choose(world.datastreams))

    def load_sources(self, world: World) -> Collection[LoadSource]:
        """Of which loads the groups that are mirrored are planned."""
        sources = self._planning.providers.choose(world.datastreams).of
        return {sources[group] for group in world.groups}

    def world(
        self,
        datastreams: tuple[Datastream, ...],
        plan: Plan,
        refused: Mapping[DatastreamName, str],
        watch: Watch | None = None,
    ) -> World:
        """Everything a plan depends on but loads, with the topics that were judged last; the watch fires when
        requests or instances change."""
        sources = sorted({one.source for one in datastreams})
        return World(
            datastreams=datastreams,
            live=self.stores.membership.live(watch),
            plan=plan,
            topics=self.topic_discovery.judged_topics(sources),
            requests=self.stores.requests.pending(watch),
            task_loads=self._loads_of_tasks(datastreams, plan),
            rules=self._planning.rules,
            matching=self.topic_discovery.matching,
            refused=refused,
        )

    def _loads_of_tasks(self, datastreams: Sequence[Datastream], plan: Plan) -> Mapping[TaskName, float]:
        """As of each task's last planning; of those that a former leader planned by load, by the last known
        loads."""
        sources = self._planning.providers.choose(datastreams)
        by_load = {group: one for group, one in sources.of.items() if group not in sources.by_count}
        known = {one: self._memory.newest.is_known(one) for one in set(by_load.values())}
        for placement in plan.tasks:
            source = by_load.get(placement.group)
            if placement.task not in self._task_loads and source is not None and known[source]:
                total = self._memory.newest.total(source, placement.partitions)
                self._task_loads[placement.task] = total
        return self._task_loads

    def decide(self, world: World) -> Decision:
        """Ask for the loads of the groups that must be planned, then plan."""
        sources = self._planning.providers.choose(world.datastreams)
        gathered = self._gathering.gather(world, sources, self._observed)
        postponed = self._postponed(world, gathered.awaited)
        requests = tuple(one for one in world.requests if one.identity not in postponed)
        world = _with(
            world,
            loads=gathered.reports,
            recent=gathered.recent,
            requests=requests,
            awaited=gathered.awaited,
            capacities=self._capacities(world),
        )
        calmed, now_ms = self._calmed(world), self._clock.now_ms()
        decision = decide(calmed, self._planning.planner, self._planning.capacity, now_ms)
        for group_plan in decision.group_plans.values():
            self._task_loads.update(group_plan.loads_bytes_per_second)
        return replace(decision, postponed=postponed, capacities=world.capacities)

    def _capacities(self, world: World) -> Mapping[GroupName, CapacityInUse]:
        """Of the groups that are planned."""
        book = self._planning.capacities
        return book.of({one: world.groups[one] for one in groups_to_plan(world)}) if book else {}

    def _calmed(self, world: World) -> World:
        """With the groups of which nothing moves now that need not: all in a freeze, else those that wait for
        their quiet hours."""
        now_ms = self._clock.now_ms()
        frozen = frozen_by(self._planning.freezes, now_ms)
        if frozen is not None:
            calm = dict.fromkeys(world.groups, f"it is within the freeze window {frozen.text}")
            return _with(world, calm=calm, rules=replace(world.rules, imbalance=math.inf))
        windows = {group: self._memory.expected.quiet(group) for group in world.groups}
        waiting = {group: one for group, one in windows.items() if one and not one.contains(now_ms)}
        return _with(world, calm={group: f"its quiet hours are {one.text}" for group, one in waiting.items()})

    def lead(self, world: World) -> Decision:
        """The leader's decision: some groups are planned because their turn has come, and none again whose
        last planning would only be repeated."""
        decision = self.decide(self.in_turn(_with(world, last=self._last)))
        self._last = decision.last
        return decision

    def _postponed(self, world: World, awaited: frozenset[GroupName]) -> frozenset[str]:
        """Requests that can wait a little for the loads that they are about."""
        since_ms = self._clock.now_ms() - _LONGEST_WAIT_MS
        return frozenset(
            one.identity
            for one in world.rebalances
            if one.identity and one.group in awaited and one.requested_ms > since_ms
        )

    def in_turn(self, world: World) -> World:
        """The same world, with some groups that are planned because their turn has come.

        Once an interval the loads of every load source are observed; when enough observations
        are there, all groups are planned by them, a few a tick. Only for the leader.
        """
        now = self._clock.monotonic()
        sources = self._planning.providers.choose(world.datastreams)
        self._memory.sources = sources.of
        if self._next_turn is None:
            self._next_turn = now + self._planning.interval_seconds
        elif now >= self._next_turn:
            self._next_turn = now + self._planning.interval_seconds
            self._observed, self._waiting = {}, []
            self._tries = dict.fromkeys(sources.of.values(), _TRIES)
            if self._planning.capacities is not None:
                self._planning.capacities.tidy()
        for source in sorted(self._tries):
            self._observe(source, world, sources, now)
        due, self._waiting = self._waiting[:_GROUPS_A_TICK], self._waiting[_GROUPS_A_TICK:]
        return _with(world, due=frozenset(due))

    def _observe(self, source: LoadSource, world: World, sources: GroupSources, now: float) -> None:
        left = self._tries.pop(source) - 1
        try:
            wanted = wanted_of(world, sources, source)
            report = self._planning.providers.of(source).loads(source.cluster, wanted)
        except Exception as error:  # noqa: BLE001 - no observation; what is placed stays
            if left > 0:
                self._tries[source] = left
            else:
                _log.warning("loads not observed", source=str(source), reason=reason_of(error))
            return
        groups = [group for group in world.groups if sources.of[group] == source]
        if self._memory.note(source, report, now, [partitions_of(world, group) for group in groups]):
            self.keeper.keep(source)
        self._memory.newest.note(source, report, self._clock.now_ms())
        if len(self._memory.before(source, now + 1)) >= NEWEST:
            self._observed[source] = Observed(report, now)
            self._waiting += groups

    def preview(self, request: RebalanceRequest) -> Decision:
        """What the request would change now of its group; only that one's clusters are asked. Raises
        Unreachable, also while a source cluster has not answered."""
        return self.preview_world(request)[1]

    def preview_world(self, request: RebalanceRequest) -> tuple[World, Decision]:
        """As `preview`, with the world that it was decided for."""
        with self._previewing:
            return self._previewed(request)

    def preview_move(self, request: MoveRequest) -> UpdatePreview:
        """What would become of lanes and tasks of its group if the leader carried the request out now. Raises
        as `preview` does; InvalidRequest where it cannot be carried out."""
        with self._previewing:
            world, decision = self._previewed(request)
            for failure in decision.impossible.values():
                raise failure
            mine, plan = world.datastreams, decision.plan or world.plan
            found = UpdatePreview(Standing(mine, world.plan), Standing(mine, plan), decision)
            return replace(found, carried=self._carried(found.effects, mine))

    def _previewed(self, request: RebalanceRequest | MoveRequest) -> tuple[World, Decision]:
        definitions, plan = self._latest_definitions.newest(), self._latest_plan()
        mine = tuple(one for one in definitions.datastreams if one.group == request.group)
        self._ask_sources(mine)
        refused = self.judgement(definitions.datastreams, plan).refused
        # The other groups are not named, so that they keep what they have.
        world = replace(self.world(mine, plan, refused), requests=(request,), is_whole=False)
        return world, self.decide(world)

    def preview_update(self, changed: Sequence[Datastream]) -> UpdatePreview:
        """What would become of lanes and tasks if these definitions, known or new, were stored now; only the
        clusters of their groups are asked. Raises Unreachable, also while a source cluster has not
        answered."""
        with self._previewing:
            definitions, plan = self._latest_definitions.newest(), self._latest_plan()
            groups, news = {one.group for one in changed}, {one.name: activated(one) for one in changed}
            kept = (one for one in definitions.datastreams if one.name not in news)
            everything = tuple(sorted((*kept, *news.values()), key=lambda one: one.name))
            before = tuple(one for one in definitions.datastreams if one.group in groups)
            after = tuple(one for one in everything if one.group in groups)
            self._ask_sources(after)
            refused = self.judgement(everything, plan).refused
            world = replace(self.world(after, plan, refused), requests=(), is_whole=False)
            decision = self.decide(world)
            found = UpdatePreview(Standing(before, plan), Standing(after, decision.plan or plan), decision)
            positions = positions_of(found.starting, self.topic_discovery)
            remarks = tuple(text for one in changed for text in self.topic_discovery.remarks(one))
            carried = self._carried(found.effects, (*before, *after))
            return replace(found, carried=carried, positions=positions, remarks=remarks)

    def _carried(
        self, found: Sequence[LaneEffect], datastreams: Sequence[Datastream]
    ) -> Mapping[LaneKey, float]:
        """Bytes per second of these lanes; what only a default is known of is left out."""
        sources = self._planning.providers.choose(datastreams).of
        places: dict[LoadSource, set[TopicPartition]] = {}
        for one in found:
            places.setdefault(sources[one.key.group], set()).add(one.key.partition)
        reports = {
            source: self._gathering.ask(source, sorted(wanted), set()) for source, wanted in places.items()
        }
        loads = {one.key: reports[sources[one.key.group]].loads.get(one.key.partition) for one in found}
        return {
            key: load.bytes_per_second
            for key, load in loads.items()
            if load is not None and load.level is not LoadLevel.DEFAULT
        }

    def _ask_sources(self, mine: tuple[Datastream, ...]) -> None:
        """For a preview, before its topics are judged. Raises Unreachable where a source cluster has not
        answered."""
        sources = sorted({one.source for one in mine})
        for source in set(sources) - self.topic_discovery.topics(sources).keys():
            raise self.topic_discovery.problem(source)


def _with(world: World, **more: Any) -> World:
    """The same picture with what only a planning needs: who is mirrored and what is wanted is found once."""
    found = replace(world, **more)
    found.__dict__.update(groups=world.groups, wishes=world.wishes, paused=world.paused)
    return found
