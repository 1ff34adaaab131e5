"""Reads the state of the fleet and plans, for the leader's ticks and for previews."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.effects import LaneEffect, PlannedDatastreams, effects
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.plan_decision import Decision, FleetState, LastPlanning, decide, groups_to_plan
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.routes.routes import RouteVerdict
from mirror.coordination.stores.definitions import DefinitionCache, DefinitionStore
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import LatestPlan, PlanStore
from mirror.coordination.stores.problems import ProblemStore, TroubleStore
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, RequestQueue
from mirror.coordination.task_placement import TaskPlacementRules
from mirror.instance.backlog.backlog import positions_of
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.health import Health
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.group_loads import LoadGathering, Observed, partitions_of, wanted_of
from mirror.instance.loads.keeper import MemoryKeeper
from mirror.instance.loads.observations import NEWEST, LoadMemory
from mirror.instance.loads.providers import GroupSources, LoadProviders
from mirror.instance.loads.store import ObservationStore
from mirror.instance.loads.watch import LoadWatch
from mirror.instance.workers.costs import CapacityResolver
from mirror.loggers import get_logger
from mirror.model.capacity.capacity import CapacityInUse
from mirror.model.capacity.freeze import FreezeWindow, frozen_by
from mirror.model.datastreams.datastream import Datastream, activated
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import DatastreamName, GroupName, TaskName
from mirror.model.load import LoadLevel, LoadSource, TaskCapacity
from mirror.model.plan import Plan
from mirror.model.reasons import reason_of
from mirror.model.topics import SourcePosition, TopicPartition
from mirror.ports import Clock, Planner, Watch

_log = get_logger(__name__)
_RULES: Final = TaskPlacementRules()
_LONGEST_WAIT_SECONDS: Final = 30.0
"""Maximum seconds that a request waits for a slow load provider, before it is planned without loads."""
_GROUPS_A_TICK: Final = 20
_TRIES: Final = 30
"""Number of ticks in which a failed observation is retried."""


@dataclass(frozen=True)
class LeaderStores:
    """Stores that the leader reads for planning."""

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


Judgement = Callable[[Sequence[Datastream], Plan], RouteVerdict]
"""Function that returns the datastreams that must not be mirrored, with reasons."""


@dataclass(frozen=True)
class Planning:
    """Dependencies and settings of planning.

    `interval_seconds`: interval between observations of the loads. `refresh_seconds`: interval between
    updates of the displayed loads; infinity for none. `capacities`: capacity of each group; None means
    `capacity` for all. `freezes`: freeze windows, in which only necessary moves are made.
    """

    planner: Planner
    providers: LoadProviders
    capacity: TaskCapacity
    interval_seconds: float = 600.0
    rules: TaskPlacementRules = _RULES
    memory: LoadMemory = field(default_factory=LoadMemory)
    capacities: CapacityResolver | None = None
    freezes: tuple[FreezeWindow, ...] = ()
    refresh_seconds: float = 15.0


@dataclass(frozen=True)
class UpdatePreview:
    """Effects that a change of definitions would have on lanes and tasks.

    `decision`: decision of the planner, with the reasons for new tasks. `carried`: bytes per second of the
    lanes that would start, stop or move. `positions`: known source positions of the lanes that would start.
    `remarks`: warnings about topic expressions of the changed definitions.
    """

    before: PlannedDatastreams
    after: PlannedDatastreams
    decision: Decision
    carried: Mapping[LaneKey, float] = field(default_factory=dict)
    positions: Mapping[LaneKey, SourcePosition] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @cached_property
    def effects(self) -> tuple[LaneEffect, ...]:
        """Lanes that would start, stop, move or restart."""
        return effects(self.before, self.after)

    @cached_property
    def starting(self) -> Mapping[LaneKey, LaneSpec]:
        """Lanes that would start after the change."""
        will = self.after.lanes()
        return {effect.key: will[effect.key][1] for effect in self.effects if effect.before is None}


class FleetPlanner:
    """Reads the state of the fleet and computes plans. Used by one thread. Any thread may call `preview`."""

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
        self._memory = memory = planning.memory
        self.gathering = LoadGathering(planning.providers, memory, clock, planning.refresh_seconds)
        self.keeper = MemoryKeeper(memory, stores.observations, clock)
        self._task_loads: dict[TaskName, float] = {}
        self._next_planning: float | None = None
        self._requests_since: Mapping[str, float] = {}
        """Time at which this leader first saw each pending request. Clocks of other instances may differ."""
        self._waiting: list[GroupName] = []
        self._tries: dict[LoadSource, int] = {}
        self._observed: dict[LoadSource, Observed] = {}
        self._last: Mapping[GroupName, LastPlanning] = {}
        self._previewing = threading.Lock()
        self._latest_plan = LatestPlan(stores.plans)
        self._latest_definitions = DefinitionCache(stores.definitions, lambda: None)

    def with_stored_loads(self) -> FleetPlanner:
        """Return a second view for previews. It starts with the stored loads, as a new leader would, and
        writes nothing. Raises Unreachable, SessionLost."""
        planning = replace(self._planning, memory=LoadMemory(self._memory.remembered_seconds))
        found = FleetPlanner(self.stores, planning, self.topic_discovery, self._clock, self.judgement)
        found._previewing = self._previewing  # both use the same topics
        found.keeper.restore()
        return found

    def load_watch(self, health: Health) -> LoadWatch:
        """Create the watch of the load providers in use."""
        return LoadWatch(self._planning.providers.freshness_of, self._memory.newest, self._clock, health)

    def refresh_loads(self, fleet: FleetState) -> None:
        """Refresh the loads shown to users. Call only on the leader."""
        self.gathering.refresh(fleet, self._planning.providers.choose(fleet.datastreams))

    def load_sources(self, fleet: FleetState) -> Collection[LoadSource]:
        """Return the load sources for planning the mirrored groups."""
        sources = self._planning.providers.choose(fleet.datastreams).of
        return {sources[group] for group in fleet.groups}

    def fleet_state(
        self,
        datastreams: tuple[Datastream, ...],
        plan: Plan,
        refused: Mapping[DatastreamName, str],
        watch: Watch | None = None,
    ) -> FleetState:
        """Return the state of the fleet, without loads, with the topics that were checked last. `watch`:
        fires when requests or instances change."""
        sources = sorted({datastream.source for datastream in datastreams})
        return FleetState(
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
        """Map tasks to the loads with which they were last planned. Tasks of a former leader have the last
        known loads. Loads of other tasks are dropped."""
        sources = self._planning.providers.choose(datastreams)
        by_load = {group: source for group, source in sources.of.items() if group not in sources.by_count}
        known = {source: self._memory.newest.is_known(source) for source in set(by_load.values())}
        former, loads = self._task_loads, dict[TaskName, float]()
        for placement in plan.tasks:
            source = by_load.get(placement.group)
            if placement.task in former:
                loads[placement.task] = former[placement.task]
            elif source is not None and known[source]:
                loads[placement.task] = self._memory.newest.total(source, placement.partitions)
        self._task_loads = loads
        return loads

    def decide(self, fleet: FleetState) -> Decision:
        """Request the loads of the groups to plan, and plan."""
        sources = self._planning.providers.choose(fleet.datastreams)
        gathered = self.gathering.gather(fleet, sources, self._observed)
        postponed = self._postponed(fleet, gathered.awaited)
        requests = tuple(request for request in fleet.requests if request.identity not in postponed)
        calm, rules = self._restraint(fleet)
        fleet = replace(
            fleet,
            loads=gathered.reports,
            recent=gathered.recent,
            requests=requests,
            awaited=gathered.awaited,
            capacities=self._capacities(fleet),
            calm=calm,
            rules=rules,
        )
        decision = decide(fleet, self._planning.planner, self._planning.capacity, self._clock.now_ms())
        for group_plan in decision.group_plans.values():
            self._task_loads.update(group_plan.loads_bytes_per_second)
        return replace(decision, postponed=postponed, capacities=fleet.capacities)

    def _capacities(self, fleet: FleetState) -> Mapping[GroupName, CapacityInUse]:
        """Return the capacities of the groups to plan."""
        resolver = self._planning.capacities
        return (
            resolver.of({group: fleet.groups[group] for group in groups_to_plan(fleet)}) if resolver else {}
        )

    def _restraint(self, fleet: FleetState) -> tuple[Mapping[GroupName, str], TaskPlacementRules]:
        """Return why optional moves must wait, for each group that must wait; and the rules for placement. In
        a freeze window, all groups wait; otherwise those outside their quiet hours."""
        now_ms = self._clock.now_ms()
        frozen = frozen_by(self._planning.freezes, now_ms)
        if frozen is not None:
            calm = dict.fromkeys(fleet.groups, f"the freeze window {frozen.text} is in effect")
            return calm, replace(fleet.rules, imbalance=math.inf)
        windows = {group: self._memory.expected.quiet(group) for group in fleet.groups}
        waiting = {
            group: window for group, window in windows.items() if window and not window.contains(now_ms)
        }
        return {group: f"the quiet hours are {window.text}" for group, window in waiting.items()}, fleet.rules

    def lead(self, fleet: FleetState) -> Decision:
        """Return the leader's decision for this tick. Also plans the groups whose interval has passed, unless
        the result would be the same as before."""
        now = self._clock.monotonic()
        pending = [rebalance.identity for rebalance in fleet.rebalances]
        self._requests_since = {identity: self._requests_since.get(identity, now) for identity in pending}
        decision = self.decide(self.with_due_groups(replace(fleet, last=self._last)))
        self._last = decision.last
        return decision

    def _postponed(self, fleet: FleetState, awaited: frozenset[GroupName]) -> frozenset[str]:
        """Return the ids of requests that can still wait for loads."""
        now = self._clock.monotonic()
        return frozenset(
            rebalance.identity
            for rebalance in fleet.rebalances
            if rebalance.identity
            and rebalance.group in awaited
            and now - self._requests_since.get(rebalance.identity, now) < _LONGEST_WAIT_SECONDS
        )

    def with_due_groups(self, fleet: FleetState) -> FleetState:
        """Return the state with groups due for planning. Call only on the leader. The loads of every source
        are observed once per interval. With enough observations, all groups are planned, a few per tick."""
        now = self._clock.monotonic()
        sources = self._planning.providers.choose(fleet.datastreams)
        self._memory.sources = sources.of
        if self._next_planning is None:
            self._next_planning = now + self._planning.interval_seconds
        elif now >= self._next_planning:
            self._next_planning = now + self._planning.interval_seconds
            self._observed, self._waiting = {}, []
            self._tries = dict.fromkeys(sources.of.values(), _TRIES)
            if self._planning.capacities is not None:
                self._planning.capacities.tidy()
        for source in sorted(self._tries):
            self._observe(source, fleet, sources, now)
        due, self._waiting = self._waiting[:_GROUPS_A_TICK], self._waiting[_GROUPS_A_TICK:]
        return replace(fleet, due=frozenset(due))

    def _observe(self, source: LoadSource, fleet: FleetState, sources: GroupSources, now: float) -> None:
        report = None
        with Bulkhead(partial(self._note_unobserved, source, self._tries.pop(source) - 1)):
            wanted = wanted_of(fleet, sources, source)
            report = self._planning.providers.of(source).loads(source.cluster, wanted)
        if report is None:
            return
        groups = [group for group in fleet.groups if sources.of[group] == source]
        if self._memory.note(source, report, now, [partitions_of(fleet, group) for group in groups]):
            self.keeper.keep(source)
        self._memory.newest.note(source, report, self._clock.now_ms())
        if len(self._memory.before(source, now + 1)) >= NEWEST:
            self._observed[source] = Observed(report, now)
            self._waiting += groups

    def _note_unobserved(self, source: LoadSource, left: int, error: Exception) -> None:
        """Schedule another attempt to observe the loads of a source, or give up with a warning."""
        if left > 0:
            self._tries[source] = left
        else:
            _log.warning("cannot observe loads", source=str(source), reason=reason_of(error))

    def preview(self, request: RebalanceRequest) -> Decision:
        """Return the decision that a request would lead to now, for its group only. Reads only the group's
        clusters. Raises Unreachable, also while a source cluster has not responded."""
        return self.preview_with_state(request)[1]

    def preview_with_state(self, request: RebalanceRequest) -> tuple[FleetState, Decision]:
        """Return the cluster state of a preview, and the decision of `preview` that is based on it."""
        with self._previewing:
            return self._previewed(request)

    def preview_move(self, request: MoveRequest) -> UpdatePreview:
        """Return the effects of a move request on the lanes and tasks of its group. Raises as `preview`, and
        InvalidRequest if the request cannot be executed."""
        with self._previewing:
            fleet, decision = self._previewed(request)
            for failure in decision.impossible.values():
                raise failure
            mine, plan = fleet.datastreams, decision.plan or fleet.plan
            found = UpdatePreview(
                PlannedDatastreams(mine, fleet.plan), PlannedDatastreams(mine, plan), decision
            )
            return replace(found, carried=self._carried(found.effects, mine))

    def _previewed(self, request: RebalanceRequest | MoveRequest) -> tuple[FleetState, Decision]:
        definitions, plan = self._latest_definitions.newest(), self._latest_plan()
        mine = tuple(
            datastream for datastream in definitions.datastreams if datastream.group == request.group
        )
        self._ask_sources(mine)
        refused = self.judgement(definitions.datastreams, plan).refused
        # The other groups are omitted, so that they keep their tasks.
        fleet = replace(self.fleet_state(mine, plan, refused), requests=(request,), is_whole=False)
        return fleet, self.decide(fleet)

    def preview_update(self, changed: Sequence[Datastream]) -> UpdatePreview:
        """Return the effects of new or changed definitions on lanes and tasks. Reads only the clusters of
        their groups. Raises Unreachable, also while a source cluster has not responded."""
        with self._previewing:
            definitions, plan = self._latest_definitions.newest(), self._latest_plan()
            groups, news = (
                {datastream.group for datastream in changed},
                {datastream.name: activated(datastream) for datastream in changed},
            )
            kept = (datastream for datastream in definitions.datastreams if datastream.name not in news)
            everything = tuple(sorted((*kept, *news.values()), key=lambda datastream: datastream.name))
            before = tuple(datastream for datastream in definitions.datastreams if datastream.group in groups)
            after = tuple(datastream for datastream in everything if datastream.group in groups)
            self._ask_sources(after)
            refused = self.judgement(everything, plan).refused
            fleet = replace(self.fleet_state(after, plan, refused), requests=(), is_whole=False)
            decision = self.decide(fleet)
            found = UpdatePreview(
                PlannedDatastreams(before, plan), PlannedDatastreams(after, decision.plan or plan), decision
            )
            positions = positions_of(found.starting, self.topic_discovery)
            remarks = tuple(
                text for datastream in changed for text in self.topic_discovery.remarks(datastream)
            )
            carried = self._carried(found.effects, (*before, *after))
            return replace(found, carried=carried, positions=positions, remarks=remarks)

    def _carried(
        self, found: Sequence[LaneEffect], datastreams: Sequence[Datastream]
    ) -> Mapping[LaneKey, float]:
        """Return the bytes per second of the lanes. Lanes with only a default load are omitted."""
        sources = self._planning.providers.choose(datastreams).of
        places: dict[LoadSource, set[TopicPartition]] = {}
        for lane in found:
            places.setdefault(sources[lane.key.group], set()).add(lane.key.partition)
        reports = {
            source: self.gathering.ask(source, sorted(wanted), set()) for source, wanted in places.items()
        }
        loads = {
            lane_effect.key: reports[sources[lane_effect.key.group]].loads.get(lane_effect.key.partition)
            for lane_effect in found
        }
        return {
            key: load.bytes_per_second
            for key, load in loads.items()
            if load is not None and load.level is not LoadLevel.DEFAULT
        }

    def _ask_sources(self, mine: tuple[Datastream, ...]) -> None:
        """Update the topics of the source clusters for a preview. Raises Unreachable without a response."""
        sources = sorted({datastream.source for datastream in mine})
        for source in set(sources) - self.topic_discovery.topics(sources).keys():
            raise self.topic_discovery.problem(source)
