"""Decision of the leader: the next plan, computed from one snapshot of the cluster state. Pure.

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
class World:
    """Snapshot of the cluster state: all inputs of a planning decision.

    `topics`: partition count of each topic, for each source cluster. A cluster that did not respond is
    missing, and its planned partitions remain. `loads`: current loads of each group to be planned. `recent`:
    earlier loads of the groups, oldest first. `due`: groups whose planning interval has passed. `task_loads`:
    bytes per second of tasks that are not planned, if known. `refused`: reason for each datastream that must
    not be mirrored; it has no tasks. `is_whole`: False if there are unreadable definitions. Planned groups
    without a readable definition then keep their tasks. `is_recovered`: the plan was rebuilt because the
    stored plan is unreadable. The plan is published even if unchanged. `last`: each group's incomplete
    planning run of an earlier decision. `awaited`: groups whose loads have been requested. `calm`: reason why
    only mandatory moves of a group are allowed. `capacities`: task capacity of each group.
    """

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
    `World.last`. `move_reasons`: reason of each move. `task_changes`: added and removed tasks."""

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


def groups_to_plan(world: World) -> tuple[GroupName, ...]:
    """Return the groups that the leader must plan again, so that it must fetch their loads."""
    requested = {request.group for request in world.rebalances}
    chosen = []
    for group, wanted in world.wishes.partitions.items():
        if group in world.wishes.problems:
            continue
        if group in requested | world.due or (wanted is not None and _differs(world, group, wanted)):
            chosen.append(group)
    return tuple(chosen)


def _differs(world: World, group: GroupName, wanted: frozenset[TopicPartition]) -> bool:
    """Return whether the group has unplanned partitions that a new plan may include."""
    if _is_complete(world, world.plan, group):
        return False
    return world.last.get(group) != LastPlanning(world.groups[group], wanted, world.plan.planned.get(group))


def _is_complete(world: World, plan: Plan, group: GroupName) -> bool:
    """Return whether the plan has exactly the selected partitions of the group, within its limits. Returns
    False if the selected partitions are unknown."""
    wanted, planned = world.wishes.partitions.get(group), plan.planned.get(group)
    return wanted is not None and wanted == planned and _is_within_limits(world, plan, group)


def _is_within_limits(world: World, plan: Plan, group: GroupName) -> bool:
    return _limits_of(world.groups[group]).hold(_sizes(plan.of_group(group)))


def _sizes(tasks: Sequence[TaskPlacement], wanted: frozenset[TopicPartition] | None = None) -> list[int]:
    """Return the number of partitions of each task. `wanted`: partitions to count; None counts all."""
    return [len(task.partitions if wanted is None else task.partitions & wanted) for task in tasks]


def _limits_of(members: Sequence[Datastream]) -> TaskLimits:
    return members[0].limits if len(members) == 1 else joint_limits(member.limits for member in members)


def _remembered(world: World, plan: Plan, answered: Collection[GroupName]) -> dict[GroupName, LastPlanning]:
    """Return, for each group, the latest incomplete planning run if it is still valid for this plan.
    `answered`: groups that were planned in this decision."""
    rests = {group: outcome for group, outcome in world.last.items() if group not in answered}
    for group in answered:
        if (wanted := world.wishes.partitions[group]) is not None and group not in world.awaited:
            rests[group] = LastPlanning(world.groups[group], wanted, plan.planned.get(group))
    return {
        group: rest
        for group, rest in rests.items()
        if group in world.groups and not _is_complete(world, plan, group)
    }


def decide(world: World, planner: Planner, capacity: TaskCapacity, now_ms: int) -> Decision:
    """Return the next plan and its reasons. A group that cannot be planned keeps its tasks, and does not
    affect other groups."""
    replanned = groups_to_plan(world)
    group_plans: dict[GroupName, GroupPlan] = {}
    problems: dict[GroupName, Exception] = dict(world.wishes.problems)
    for group in replanned:
        with Bulkhead(partial(problems.__setitem__, group)):
            group_plans[group] = _planned(world, group, planner, capacity)
    tasks, impossible = _housed(world, group_plans, problems, now_ms)
    impossible |= _unanswerable(world, problems)
    is_exclusion_new = (excluded := _excluded(world)) != world.plan.excluded
    if tasks == world.plan.tasks and not is_exclusion_new and not world.is_recovered:
        sentence, last = unchanged(world.plan, world.live), _remembered(world, world.plan, group_plans)
        return Decision(None, sentence, (), group_plans, problems, impossible, loads=world.loads, last=last)
    moves = moves_between(world.plan.tasks, tasks)
    sentence = changed(
        PlanChange(
            before=world.plan,
            tasks=tasks,
            moves=moves,
            live=world.live,
            planned=replanned,
            answered=[request for request in world.requests if request.identity not in impossible],
            is_recovered=world.is_recovered,
            is_exclusion_new=is_exclusion_new,
            is_due=bool(world.due),
            is_limited=not all(_is_within_limits(world, world.plan, group) for group in replanned),
        )
    )
    departed = departures(world.plan, world.live, world.rules, now_ms)
    plan = Plan(Epoch(world.plan.epoch + 1), tasks, now_ms, sentence, departed, excluded)
    requested = [move for move in world.moves if move.identity not in impossible]
    return Decision(
        *(plan, sentence, moves, group_plans, problems, impossible),
        loads=world.loads,
        last=_remembered(world, plan, group_plans),
        move_reasons=move_reasons(moves, group_plans, world.plan, world.live, requested),
        task_changes=task_changes(world.plan, tasks, group_plans, requested),
    )


def _housed(
    world: World, group_plans: dict[GroupName, GroupPlan], problems: dict[GroupName, Exception], now_ms: int
) -> tuple[tuple[TaskPlacement, ...], dict[str, Exception]]:
    """Assign tasks to instances. Return the tasks, and the error of each failed request (keyed by request
    id). If a group cannot be placed, its plan is removed from `group_plans`, and its error is added to
    `problems`."""
    with Bulkhead():  # the loop finds the group that fails
        return _placed(world, group_plans, now_ms)
    for group, answer in tuple(group_plans.items()):
        with Bulkhead() as placing:
            _placed(world, {group: answer}, now_ms)
        if placing.failure is not None:
            problems[group] = placing.failure
            del group_plans[group]
    return _placed(world, group_plans, now_ms)


def _placed(
    world: World, group_plans: Mapping[GroupName, GroupPlan], now_ms: int
) -> tuple[tuple[TaskPlacement, ...], dict[str, Exception]]:
    contents, impossible = _moved(world, _contents(world, group_plans))
    is_guess = any(_is_blind(world, group) for group in group_plans)
    rules = replace(world.rules, imbalance=math.inf) if is_guess else world.rules
    return place_tasks(contents, world.plan, world.live, rules, now_ms), impossible


def _planned(world: World, group: GroupName, planner: Planner, capacity: TaskCapacity) -> GroupPlan:
    check_storable(group)
    request = planning_request(world, group, world.groups[group], capacity)
    answer = planner.plan(request)
    answer.check(request)
    notes = _notes(world, group)
    if world.plan.of_group(group) and _is_blind(world, group):
        effect = "new tasks are filled by count" if request.rebalance else "placed partitions stay"
        notes = (*notes, f"loads are unknown: {effect}")
    return replace(answer, reasons=(*answer.reasons, *notes))


def _notes(world: World, group: GroupName) -> tuple[str, ...]:
    """Return notes for the operator on the quality of a group's loads."""
    report = world.loads.get(group)
    if report is None:
        return ()
    wanted = world.wishes.partitions[group] or frozenset()
    behind = len(report.at_least & wanted)
    if not behind:
        return report.notes
    note = f"{behind} of {counted(len(wanted), 'partition')} are behind: their loads are lower bounds"
    return (*report.notes, note)


def _is_blind(world: World, group: GroupName) -> bool:
    """Return whether the group is to be planned although its loads are unknown."""
    return group in world.loads and world.loads[group].is_blind


def _moved(
    world: World, contents: dict[TaskName, TaskContent]
) -> tuple[dict[TaskName, TaskContent], dict[str, Exception]]:
    """Apply the pending move requests to the tasks. Return the tasks, and map request ids to errors."""
    impossible: dict[str, Exception] = {}
    for request in world.moves:
        with Bulkhead(partial(impossible.__setitem__, request.identity)):
            contents = move_to_host(contents, request, world.live)
    return contents, impossible


def _excluded(world: World) -> dict[DatastreamName, frozenset[str] | None]:
    """Return the topics that each datastream must leave to other members of its group; None for all topics.
    Datastreams that are alone in their group are omitted."""
    found: dict[DatastreamName, frozenset[str] | None] = {}
    for members in groups_of(world.datastreams).values():
        for member in members if len(members) > 1 else ():
            left_out = world.matching.limits(member.name).left_out
            if member.name in world.refused:
                found[member.name] = None
            elif left_out:
                found[member.name] = left_out
    return found


def _unanswerable(world: World, problems: Mapping[GroupName, Exception]) -> dict[str, Exception]:
    """Map request ids to errors: for unreadable requests, and for groups that are not mirrored or planned."""
    found: dict[str, Exception] = {
        request.identity: CorruptData(request.problem)
        for request in world.requests
        if isinstance(request, DamagedRequest)
    }
    for request in world.rebalances:
        if request.group in problems:
            found[request.identity] = problems[request.group]
        elif request.group not in world.groups:
            found[request.identity] = InvalidRequest(f"group {request.group} has no mirrored datastream")
    return found


def planning_request(
    world: World, group: GroupName, members: Sequence[Datastream], capacity: TaskCapacity
) -> PlanningRequest:
    """Return the planner's input for a group. Without known loads, rebalance requests are ignored. Limits
    that require more tasks still apply, unless the planner waits for loads."""
    planned, wanted = world.plan.planned.get(group, frozenset()), world.wishes.partitions[group]
    requests = [request for request in world.rebalances if request.group == group]
    limits, is_too_few = _limits_of(members), False
    if world.plan.of_group(group):
        is_too_few = limits.ask_for_more(_sizes(world.plan.of_group(group), wanted))
        if _is_blind(world, group):
            requests, is_too_few = [], is_too_few and group not in world.awaited
    report, own = world.loads.get(group), world.capacities.get(group)
    knobs = [member.placement for member in members]
    return PlanningRequest(
        group=group,
        partitions=tuple(sorted(planned if wanted is None else wanted)),
        loads=report.loads if report else {},
        capacity=own.capacity if own else capacity,
        limits=limits,
        current={
            partition: placement.task
            for placement in world.plan.of_group(group)
            for partition in placement.partitions
        },
        full=any(request.full for request in requests),
        rebalance=bool(requests) or is_too_few,
        recent=world.recent.get(group, ()),
        scale_in_headroom=joint_headroom(knobs),
        calm=world.calm.get(group, ""),
        strategy=joint_strategy(knobs),
    )


def _contents(world: World, group_plans: Mapping[GroupName, GroupPlan]) -> dict[TaskName, TaskContent]:
    """Map the names of all tasks of the next plan to the tasks. Existing tasks keep their instance."""
    contents: dict[TaskName, TaskContent] = {}
    before = world.plan.by_task
    for group in (*world.groups, *_resting(world)):
        chosen = group_plans.get(group)
        if chosen is None:
            for placement in world.plan.of_group(group):
                load = world.task_loads.get(placement.task, 0.0)
                contents[placement.task] = TaskContent(group, placement.partitions, load, placement.instance)
            continue
        for task, partitions in ((name, held) for name, held in chosen.tasks.items() if held):
            home = before[task].instance if task in before else None
            load = chosen.loads_bytes_per_second.get(task, 0.0)
            contents[task] = TaskContent(group, partitions, load, home)
    return contents


def _resting(world: World) -> list[GroupName]:
    """Return the groups that keep their tasks and are not planned: all of their datastreams are paused, or
    their definitions may be unreadable."""
    named = {datastream.group for datastream in world.datastreams}
    return [
        group
        for group in world.plan.by_group
        if group not in world.groups
        and (group in world.paused or (not world.is_whole and group not in named))
    ]
