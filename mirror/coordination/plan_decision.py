"""Decision of the leader: the next plan, computed from one snapshot of the fleet. Pure.

A group is planned if its selected partitions differ from its planned partitions, if a request exists, or if
it was never planned. Other groups keep their tasks. If limits leave partitions without a task, the group is
planned again only after the inputs have changed. Finally, all tasks are distributed over the live instances.
The decision is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.coordination.partition_selection import TopicMatching, TopicsByCluster
from mirror.coordination.plan_reasons import (
    Place,
    PlanChange,
    TaskChange,
    changed,
    move_reasons,
    task_changes,
    unchanged,
)
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.plan_store import check_storable
from mirror.coordination.stores.requests import DamagedRequest, MoveRequest, RebalanceRequest, Request
from mirror.coordination.task_placement import (
    TaskContent,
    TaskPlacementRules,
    departures,
    move_to_host,
    place_tasks,
)
from mirror.errors import CorruptData, InvalidRequest
from mirror.model.capacity.capacity import CapacityInUse
from mirror.model.capacity.knobs import joint_headroom, joint_strategy
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName, Epoch, GroupName, TaskName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits, joint_limits
from mirror.model.plan import GroupPlan, Move, Plan, PlanningRequest, TaskPlacement, moves_between
from mirror.model.topics import TopicPartition
from mirror.ports import Planner
from mirror.wording import counted

_NO_RULES: Final = TaskPlacementRules()


@dataclass(frozen=True)
class WantedPartitions:
    """Partitions that each group should mirror. None means unknown: the group keeps its planned partitions.
    `problems`: maps groups with unknown partitions to the error."""

    partitions: Mapping[GroupName, frozenset[TopicPartition] | None]
    problems: Mapping[GroupName, Exception]


@dataclass(frozen=True)
class LastPlanning:
    """Inputs and result of a planning run that left partitions without a task.

    Equal inputs give an equal plan, so the group is not planned again until the inputs change. Loads are not
    included.

    `planned`: partitions of the group in the resulting plan; None if the group has no task.
    """

    members: tuple[Datastream, ...]
    wanted: frozenset[TopicPartition]
    planned: frozenset[TopicPartition] | None


@dataclass(frozen=True)
class FleetState:
    """Snapshot of the cluster state: all inputs of a planning decision. `topics`: partition count of each
    topic, for each source cluster. A cluster that did not respond is missing, and its planned partitions
    remain. `loads`: current loads of each group to be planned. `recent`: earlier loads of the groups, oldest
    first. `due`: groups whose planning interval has passed. `task_loads`: bytes per second of tasks that are
    not planned, if known. `refused`: reason for each datastream that must not be mirrored; it has no tasks.
    `is_whole`: False if there are unreadable definitions. Planned groups without a readable definition then
    keep their tasks. `is_recovered`: the plan was rebuilt because the stored plan is unreadable. The plan is
    published even if unchanged. `last`: each group's incomplete planning run of an earlier decision.
    `awaited`: groups whose loads have been requested. `calm`: reason why only mandatory moves of a group are
    allowed. `capacities`: task capacity of each group."""

    datastreams: tuple[Datastream, ...]
    live: tuple[LiveInstance, ...]
    plan: Plan
    topics: TopicsByCluster
    requests: tuple[Request, ...] = ()
    loads: Mapping[GroupName, LoadReport] = field(default_factory=dict)
    recent: Mapping[GroupName, tuple[Mapping[TopicPartition, PartitionLoad], ...]] = field(
        default_factory=dict
    )
    due: frozenset[GroupName] = frozenset()
    task_loads: Mapping[TaskName, float] = field(default_factory=dict)
    rules: TaskPlacementRules = _NO_RULES
    matching: TopicMatching = field(default_factory=TopicMatching, compare=False)
    refused: Mapping[DatastreamName, str] = field(default_factory=dict)
    is_whole: bool = True
    is_recovered: bool = False
    last: Mapping[GroupName, LastPlanning] = field(default_factory=dict)
    awaited: frozenset[GroupName] = frozenset()
    calm: Mapping[GroupName, str] = field(default_factory=dict)
    capacities: Mapping[GroupName, CapacityInUse] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[GroupName, tuple[Datastream, ...]]:
        """Map each group to its mirrored datastreams, sorted by name. Omits refused datastreams."""
        return groups_of(datastream for datastream in self.datastreams if datastream.name not in self.refused)

    @cached_property
    def wishes(self) -> WantedPartitions:
        """Partitions that each group should mirror, derived from the topics that its datastreams select."""
        partitions: dict[GroupName, frozenset[TopicPartition] | None] = {}
        problems: dict[GroupName, Exception] = {}
        for group, members in self.groups.items():
            partitions[group] = None
            with Bulkhead(partial(problems.__setitem__, group)):
                wanted, kept = self.matching.wanted(members, self.topics), self._kept_paused(group)
                partitions[group] = wanted if wanted is None or not kept else wanted | kept
        return WantedPartitions(partitions, problems)

    @cached_property
    def paused(self) -> Mapping[GroupName, tuple[Datastream, ...]]:
        """Map each group to its paused datastreams. Their partitions keep their tasks."""
        found: dict[GroupName, list[Datastream]] = {}
        for datastream in self.datastreams:
            if datastream.status is DatastreamStatus.PAUSED:
                found.setdefault(datastream.group, []).append(datastream)
        return {group: tuple(members) for group, members in found.items()}

    def _kept_paused(self, group: GroupName) -> frozenset[TopicPartition]:
        paused = self.paused.get(group, ())
        planned = self.plan.planned.get(group, frozenset()) if paused else frozenset()
        topics = {partition.topic for partition in planned}
        kept = {
            topic for topic in topics if any(datastream.selection.matches(topic) for datastream in paused)
        }
        return frozenset(partition for partition in planned if partition.topic in kept)

    @property
    def rebalances(self) -> tuple[RebalanceRequest, ...]:
        """Pending requests to plan groups again."""
        return tuple(request for request in self.requests if isinstance(request, RebalanceRequest))

    @property
    def moves(self) -> tuple[MoveRequest, ...]:
        """Pending requests to move partitions to an instance."""
        return tuple(request for request in self.requests if isinstance(request, MoveRequest))


@dataclass(frozen=True)
class Decision:
    """Decision of the leader: the next plan, its moves, and the reason. The plan is None if the current plan
    remains. `problems`: error for each group that could not be planned and keeps its tasks. `impossible`:
    maps ids of requests that cannot be fulfilled to errors. `postponed`: ids of requests for a later
    decision. `loads`, `capacities`: inputs of the planned groups. `last`: input of the next decision, see
    `FleetState.last`. `move_reasons`: reason of each move. `task_changes`: added and removed tasks."""

    plan: Plan | None
    sentence: str
    moves: tuple[Move, ...] = ()
    group_plans: Mapping[GroupName, GroupPlan] = field(default_factory=dict)
    problems: Mapping[GroupName, Exception] = field(default_factory=dict)
    impossible: Mapping[str, Exception] = field(default_factory=dict)
    postponed: frozenset[str] = frozenset()
    loads: Mapping[GroupName, LoadReport] = field(default_factory=dict)
    capacities: Mapping[GroupName, CapacityInUse] = field(default_factory=dict)
    last: Mapping[GroupName, LastPlanning] = field(default_factory=dict)
    move_reasons: Mapping[Place, str] = field(default_factory=dict)
    task_changes: tuple[TaskChange, ...] = ()

    @property
    def are_loads_known(self) -> bool:
        """True if every planned group was planned with measured loads, of any age. Otherwise, a plan without
        moves does not prove that moves are unnecessary."""
        reports = [self.loads.get(group) for group in self.group_plans]
        return all(report is not None and not report.is_blind for report in reports)


def groups_of(datastreams: Iterable[Datastream]) -> dict[GroupName, tuple[Datastream, ...]]:
    """Map each group to its mirrored datastreams. Groups and datastreams are sorted by name."""
    groups: dict[GroupName, list[Datastream]] = {}
    for datastream in sorted(datastreams, key=lambda member: member.name):
        if datastream.status.is_mirrored:
            groups.setdefault(datastream.group, []).append(datastream)
    return {name: tuple(groups[name]) for name in sorted(groups)}


def groups_to_plan(fleet: FleetState) -> tuple[GroupName, ...]:
    """Return the groups that the leader must plan again, so that it must fetch their loads."""
    requested = {request.group for request in fleet.rebalances}
    chosen = []
    for group, wanted in fleet.wishes.partitions.items():
        if group in fleet.wishes.problems:
            continue
        if group in requested | fleet.due or (wanted is not None and _differs(fleet, group, wanted)):
            chosen.append(group)
    return tuple(chosen)


def _differs(fleet: FleetState, group: GroupName, wanted: frozenset[TopicPartition]) -> bool:
    """Return whether the group has unplanned partitions that a new plan may include."""
    if _is_complete(fleet, fleet.plan, group):
        return False
    return fleet.last.get(group) != LastPlanning(fleet.groups[group], wanted, fleet.plan.planned.get(group))


def _is_complete(fleet: FleetState, plan: Plan, group: GroupName) -> bool:
    """Return whether the plan has exactly the selected partitions of the group, within its limits. Returns
    False if the selected partitions are unknown."""
    wanted, planned = fleet.wishes.partitions.get(group), plan.planned.get(group)
    return wanted is not None and wanted == planned and _is_within_limits(fleet, plan, group)


def _is_within_limits(fleet: FleetState, plan: Plan, group: GroupName) -> bool:
    return _limits_of(fleet.groups[group]).hold(_sizes(plan.of_group(group)))


def _sizes(tasks: Sequence[TaskPlacement], wanted: frozenset[TopicPartition] | None = None) -> list[int]:
    """Return the number of partitions of each task. `wanted`: partitions to count; None counts all."""
    return [len(task.partitions if wanted is None else task.partitions & wanted) for task in tasks]


def _limits_of(members: Sequence[Datastream]) -> TaskLimits:
    return members[0].limits if len(members) == 1 else joint_limits(member.limits for member in members)


def _remembered(
    fleet: FleetState, plan: Plan, answered: Collection[GroupName]
) -> dict[GroupName, LastPlanning]:
    """Return, for each group, the latest incomplete planning run if it is still valid for this plan.
    `answered`: groups that were planned in this decision."""
    rests = {group: outcome for group, outcome in fleet.last.items() if group not in answered}
    for group in answered:
        if (wanted := fleet.wishes.partitions[group]) is not None and group not in fleet.awaited:
            rests[group] = LastPlanning(fleet.groups[group], wanted, plan.planned.get(group))
    return {
        group: rest
        for group, rest in rests.items()
        if group in fleet.groups and not _is_complete(fleet, plan, group)
    }


def decide(fleet: FleetState, planner: Planner, capacity: TaskCapacity, now_ms: int) -> Decision:
    """Return the next plan and its reasons. A group that cannot be planned keeps its tasks, and does not
    affect other groups."""
    replanned = groups_to_plan(fleet)
    group_plans: dict[GroupName, GroupPlan] = {}
    problems: dict[GroupName, Exception] = dict(fleet.wishes.problems)
    for group in replanned:
        with Bulkhead(partial(problems.__setitem__, group)):
            group_plans[group] = _planned(fleet, group, planner, capacity)
    tasks, impossible = _housed(fleet, group_plans, problems, now_ms)
    impossible |= _unanswerable(fleet, problems)
    is_exclusion_new = (excluded := _excluded(fleet)) != fleet.plan.excluded
    if tasks == fleet.plan.tasks and not is_exclusion_new and not fleet.is_recovered:
        sentence, last = unchanged(fleet.plan, fleet.live), _remembered(fleet, fleet.plan, group_plans)
        return Decision(None, sentence, (), group_plans, problems, impossible, loads=fleet.loads, last=last)
    moves = moves_between(fleet.plan.tasks, tasks)
    sentence = changed(
        PlanChange(
            before=fleet.plan,
            tasks=tasks,
            moves=moves,
            live=fleet.live,
            planned=replanned,
            answered=[request for request in fleet.requests if request.identity not in impossible],
            is_recovered=fleet.is_recovered,
            is_exclusion_new=is_exclusion_new,
            is_due=bool(fleet.due),
            is_limited=not all(_is_within_limits(fleet, fleet.plan, group) for group in replanned),
        )
    )
    departed = departures(fleet.plan, fleet.live, fleet.rules, now_ms)
    plan = Plan(Epoch(fleet.plan.epoch + 1), tasks, now_ms, sentence, departed, excluded)
    requested = [move for move in fleet.moves if move.identity not in impossible]
    return Decision(
        *(plan, sentence, moves, group_plans, problems, impossible),
        loads=fleet.loads,
        last=_remembered(fleet, plan, group_plans),
        move_reasons=move_reasons(moves, group_plans, fleet.plan, fleet.live, requested),
        task_changes=task_changes(fleet.plan, tasks, group_plans, requested),
    )


def _housed(
    fleet: FleetState,
    group_plans: dict[GroupName, GroupPlan],
    problems: dict[GroupName, Exception],
    now_ms: int,
) -> tuple[tuple[TaskPlacement, ...], dict[str, Exception]]:
    """Assign tasks to instances. Return the tasks, and the error of each failed request (keyed by request
    id). If a group cannot be placed, its plan is removed from `group_plans`, and its error is added to
    `problems`."""
    with Bulkhead():  # the loop finds the group that fails
        return _placed(fleet, group_plans, now_ms)
    for group, answer in tuple(group_plans.items()):
        with Bulkhead() as placing:
            _placed(fleet, {group: answer}, now_ms)
        if placing.failure is not None:
            problems[group] = placing.failure
            del group_plans[group]
    return _placed(fleet, group_plans, now_ms)


def _placed(
    fleet: FleetState, group_plans: Mapping[GroupName, GroupPlan], now_ms: int
) -> tuple[tuple[TaskPlacement, ...], dict[str, Exception]]:
    contents, impossible = _moved(fleet, _contents(fleet, group_plans))
    is_guess = any(_is_blind(fleet, group) for group in group_plans)
    rules = replace(fleet.rules, imbalance=math.inf) if is_guess else fleet.rules
    return place_tasks(contents, fleet.plan, fleet.live, rules, now_ms), impossible


def _planned(fleet: FleetState, group: GroupName, planner: Planner, capacity: TaskCapacity) -> GroupPlan:
    check_storable(group)
    request = planning_request(fleet, group, fleet.groups[group], capacity)
    answer = planner.plan(request)
    answer.check(request)
    notes = _notes(fleet, group)
    if fleet.plan.of_group(group) and _is_blind(fleet, group):
        effect = "new tasks are filled by count" if request.rebalance else "placed partitions stay"
        notes = (*notes, f"loads are unknown: {effect}")
    return replace(answer, reasons=(*answer.reasons, *notes))


def _notes(fleet: FleetState, group: GroupName) -> tuple[str, ...]:
    """Return notes for the operator on the quality of a group's loads."""
    report = fleet.loads.get(group)
    if report is None:
        return ()
    wanted = fleet.wishes.partitions[group] or frozenset()
    behind = len(report.at_least & wanted)
    if not behind:
        return report.notes
    note = f"{behind} of {counted(len(wanted), 'partition')} are behind: their loads are lower bounds"
    return (*report.notes, note)


def _is_blind(fleet: FleetState, group: GroupName) -> bool:
    """Return whether the group is to be planned although its loads are unknown."""
    return group in fleet.loads and fleet.loads[group].is_blind


def _moved(
    fleet: FleetState, contents: dict[TaskName, TaskContent]
) -> tuple[dict[TaskName, TaskContent], dict[str, Exception]]:
    """Apply the pending move requests to the tasks. Return the tasks, and map request ids to errors."""
    impossible: dict[str, Exception] = {}
    for request in fleet.moves:
        with Bulkhead(partial(impossible.__setitem__, request.identity)):
            contents = move_to_host(contents, request, fleet.live)
    return contents, impossible


def _excluded(fleet: FleetState) -> dict[DatastreamName, frozenset[str] | None]:
    """Return the topics that each datastream must leave to other members of its group; None for all topics.
    Datastreams that are alone in their group are omitted."""
    found: dict[DatastreamName, frozenset[str] | None] = {}
    for members in groups_of(fleet.datastreams).values():
        for member in members if len(members) > 1 else ():
            left_out = fleet.matching.limits(member.name).left_out
            if member.name in fleet.refused:
                found[member.name] = None
            elif left_out:
                found[member.name] = left_out
    return found


def _unanswerable(fleet: FleetState, problems: Mapping[GroupName, Exception]) -> dict[str, Exception]:
    """Map request ids to errors: for unreadable requests, and for groups that are not mirrored or planned."""
    found: dict[str, Exception] = {
        request.identity: CorruptData(request.problem)
        for request in fleet.requests
        if isinstance(request, DamagedRequest)
    }
    for request in fleet.rebalances:
        if request.group in problems:
            found[request.identity] = problems[request.group]
        elif request.group not in fleet.groups:
            found[request.identity] = InvalidRequest(f"group {request.group} has no mirrored datastream")
    return found


def planning_request(
    fleet: FleetState, group: GroupName, members: Sequence[Datastream], capacity: TaskCapacity
) -> PlanningRequest:
    """Return the planner's input for a group. Without known loads, rebalance requests are ignored. Limits
    that require more tasks still apply, unless the planner waits for loads."""
    planned, wanted = fleet.plan.planned.get(group, frozenset()), fleet.wishes.partitions[group]
    requests = [request for request in fleet.rebalances if request.group == group]
    limits, is_too_few = _limits_of(members), False
    if fleet.plan.of_group(group):
        is_too_few = limits.ask_for_more(_sizes(fleet.plan.of_group(group), wanted))
        if _is_blind(fleet, group):
            requests, is_too_few = [], is_too_few and group not in fleet.awaited
    report, own = fleet.loads.get(group), fleet.capacities.get(group)
    knobs = [member.placement for member in members]
    return PlanningRequest(
        group=group,
        partitions=tuple(sorted(planned if wanted is None else wanted)),
        loads=report.loads if report else {},
        capacity=own.capacity if own else capacity,
        limits=limits,
        current={
            partition: placement.task
            for placement in fleet.plan.of_group(group)
            for partition in placement.partitions
        },
        full=any(request.full for request in requests),
        rebalance=bool(requests) or is_too_few,
        recent=fleet.recent.get(group, ()),
        scale_in_headroom=joint_headroom(knobs),
        calm=fleet.calm.get(group, ""),
        strategy=joint_strategy(knobs),
    )


def _contents(fleet: FleetState, group_plans: Mapping[GroupName, GroupPlan]) -> dict[TaskName, TaskContent]:
    """Map the names of all tasks of the next plan to the tasks. Existing tasks keep their instance."""
    contents: dict[TaskName, TaskContent] = {}
    before = fleet.plan.by_task
    for group in (*fleet.groups, *_resting(fleet)):
        chosen = group_plans.get(group)
        if chosen is None:
            for placement in fleet.plan.of_group(group):
                load = fleet.task_loads.get(placement.task, 0.0)
                contents[placement.task] = TaskContent(group, placement.partitions, load, placement.instance)
            continue
        for task, partitions in ((name, held) for name, held in chosen.tasks.items() if held):
            home = before[task].instance if task in before else None
            load = chosen.loads_bytes_per_second.get(task, 0.0)
            contents[task] = TaskContent(group, partitions, load, home)
    return contents


def _resting(fleet: FleetState) -> list[GroupName]:
    """Return the groups that keep their tasks and are not planned: all of their datastreams are paused, or
    their definitions may be unreadable."""
    named = {datastream.group for datastream in fleet.datastreams}
    return [
        group
        for group in fleet.plan.by_group
        if group not in fleet.groups and (group in fleet.paused or not (fleet.is_whole or group in named))
    ]
