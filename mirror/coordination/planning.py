"""What the leader decides: from one picture of the world to the next plan. Pure.

A group is planned when its wanted partitions differ from the planned ones, when somebody asked, or
when it has never been planned; every other group keeps its tasks. Where limits leave no room for all that
is wanted, the last planning is remembered, and the group is planned again when what it rests on has changed.
Then all tasks are spread over the live instances. The same world gives the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from mirror.coordination.matching import TopicMatching, TopicsByCluster
from mirror.coordination.sentences.move_reason import Place, move_reasons
from mirror.coordination.sentences.plan_sentence import PlanChange, changed, unchanged
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.plan_store import check_storable
from mirror.coordination.stores.requests import (
    DamagedRequest,
    MoveRequest,
    RebalanceRequest,
    Request,
)
from mirror.coordination.task_placement import (
    TaskContent,
    TaskPlacementRules,
    departures,
    move_to_host,
    place_tasks,
)
from mirror.errors import CorruptData, InvalidRequest
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName, Epoch, GroupName, TaskName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits, joint_limits
from mirror.model.plan import GroupPlan, Move, Plan, PlanningRequest, TaskPlacement, moves_between
from mirror.model.sizing.capacity import CapacityInUse
from mirror.model.sizing.knobs import joint_headroom, joint_strategy
from mirror.model.topics import TopicPartition
from mirror.ports import Planner
from mirror.wording import counted

_NO_RULES: Final = TaskPlacementRules()


@dataclass(frozen=True)
class Wishes:
    """What groups should mirror; None where that cannot be known now, so that what is planned stays.
    `problems`: groups of which even the question failed."""

    partitions: Mapping[GroupName, frozenset[TopicPartition] | None]
    problems: Mapping[GroupName, Exception]


@dataclass(frozen=True)
class LastPlanning:
    """A planning of a group after which not all that is wanted has a task, and what it rests on: the same of
    these would give the same plan. Loads do not count: they are planned by in the group's turn.

    `planned`: what the plan in force had afterwards; None where the group has no task.
    """

    members: tuple[Datastream, ...]
    wanted: frozenset[TopicPartition]
    planned: frozenset[TopicPartition] | None


@dataclass(frozen=True)
class World:
    """One picture of everything that a plan depends on.

    `topics`: partition counts by source cluster; a cluster that could not be asked is missing, and
    what is planned of it stays. `loads`, and `recent`, what was observed before, oldest first: by
    group that is planned again. `due`: groups that are planned again because it is their
    turn. `task_loads`: bytes per second of the tasks that are not planned, as far as they are known.
    `refused`: datastreams that must not be mirrored now, and why; they have no tasks until that is over.
    `is_whole` false: there are datastreams that cannot be read, of which nothing is known; groups that no
    other datastream names keep their tasks. `is_recovered`: the plan was put together again, because the
    one in force cannot be read: one is published whether it differs or not. `last`: what earlier decisions
    remembered, by group. `awaited`: groups whose loads are on their way. `calm`: why nothing of a
    group moves now that need not. `capacities`: of tasks.
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
        """Datastreams that are mirrored, by group, both sorted by name."""
        return groups_of(one for one in self.datastreams if one.name not in self.refused)

    @cached_property
    def wishes(self) -> Wishes:
        """What every group should mirror."""
        partitions: dict[GroupName, frozenset[TopicPartition] | None] = {}
        problems: dict[GroupName, Exception] = {}
        for group, members in self.groups.items():
            partitions[group] = None
            try:
                wanted = self.matching.wanted(members, self.topics)
                partitions[group] = None if wanted is None else wanted | self._kept_paused(group)
            except Exception as error:  # noqa: BLE001 - the bulkhead around one group
                problems[group] = error
        return Wishes(partitions, problems)

    @cached_property
    def paused(self) -> Mapping[GroupName, tuple[Datastream, ...]]:
        """Datastreams that a person paused as a whole, by group: their partitions keep their tasks."""
        found: dict[GroupName, list[Datastream]] = {}
        for one in self.datastreams:
            if one.status is DatastreamStatus.PAUSED:
                found.setdefault(one.group, []).append(one)
        return {group: tuple(members) for group, members in found.items()}

    def _kept_paused(self, group: GroupName) -> frozenset[TopicPartition]:
        paused = self.paused.get(group, ())
        planned = self.plan.planned.get(group, frozenset()) if paused else frozenset()
        topics = {one.topic for one in planned}
        kept = {topic for topic in topics if any(one.selection.matches(topic) for one in paused)}
        return frozenset(one for one in planned if one.topic in kept)

    @property
    def rebalances(self) -> tuple[RebalanceRequest, ...]:
        """Requests to plan groups again."""
        return tuple(one for one in self.requests if isinstance(one, RebalanceRequest))

    @property
    def moves(self) -> tuple[MoveRequest, ...]:
        """Requests to bring partitions to an instance."""
        return tuple(one for one in self.requests if isinstance(one, MoveRequest))


@dataclass(frozen=True)
class Decision:
    """The next plan (None: the one in force is right), what it moves, and why.

    `problems`: groups that could not be planned and keep the tasks they have. `impossible`: requests, by
    identity, that cannot be carried out, and why. `postponed`: identities of requests that a later decision
    answers. `loads`, `capacities`: what the planned groups were planned by. `last`: what the next decision
    must know of this one and those before, `World.last`. `move_reasons`: one of each move.
    """

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

    @property
    def are_loads_known(self) -> bool:
        """Whether the planned groups were planned by loads that were measured, of some age; where not, that
        nothing moves does not mean that no move would help."""
        reports = [self.loads.get(group) for group in self.group_plans]
        return all(one is not None and not one.is_blind for one in reports)


def groups_of(datastreams: Iterable[Datastream]) -> dict[GroupName, tuple[Datastream, ...]]:
    """Datastreams that are mirrored, by group, both sorted by name."""
    groups: dict[GroupName, list[Datastream]] = {}
    for datastream in sorted(datastreams, key=lambda one: one.name):
        if datastream.status.is_mirrored:
            groups.setdefault(datastream.group, []).append(datastream)
    return {name: tuple(groups[name]) for name in sorted(groups)}


def groups_to_plan(world: World) -> tuple[GroupName, ...]:
    """The groups whose tasks must be decided again; their loads are worth asking for."""
    asked = {request.group for request in world.rebalances}
    chosen = []
    for group, wanted in world.wishes.partitions.items():
        if group in world.wishes.problems:
            continue
        if group in asked | world.due or (wanted is not None and _differs(world, group, wanted)):
            chosen.append(group)
    return tuple(chosen)


def _differs(world: World, group: GroupName, wanted: frozenset[TopicPartition]) -> bool:
    """Whether the plan has something else than it should, as far as another planning can change that."""
    if _is_complete(world, world.plan, group):
        return False
    return world.last.get(group) != LastPlanning(world.groups[group], wanted, world.plan.planned.get(group))


def _is_complete(world: World, plan: Plan, group: GroupName) -> bool:
    """Whether a plan has all that is wanted of the group, within its limits; false where that is unknown."""
    wanted, planned = world.wishes.partitions.get(group), plan.planned.get(group)
    return wanted is not None and wanted == planned and _is_within_limits(world, plan, group)


def _is_within_limits(world: World, plan: Plan, group: GroupName) -> bool:
    return _limits_of(world.groups[group]).hold(_sizes(plan.of_group(group)))


def _sizes(tasks: Sequence[TaskPlacement], wanted: frozenset[TopicPartition] | None = None) -> list[int]:
    """How many partitions tasks hold; of those that are wanted, where that is known."""
    return [len(one.partitions if wanted is None else one.partitions & wanted) for one in tasks]


def _limits_of(members: Sequence[Datastream]) -> TaskLimits:
    return members[0].limits if len(members) == 1 else joint_limits(one.limits for one in members)


def _remembered(world: World, plan: Plan, answered: Collection[GroupName]) -> dict[GroupName, LastPlanning]:
    """What is to be known of the plannings that gave this plan; `answered`: groups that were planned now."""
    rests = {group: one for group, one in world.last.items() if group not in answered}
    for group in answered:
        if (wanted := world.wishes.partitions[group]) is not None and group not in world.awaited:
            rests[group] = LastPlanning(world.groups[group], wanted, plan.planned.get(group))
    return {
        group: one
        for group, one in rests.items()
        if group in world.groups and not _is_complete(world, plan, group)
    }


def decide(world: World, planner: Planner, capacity: TaskCapacity, now_ms: int) -> Decision:
    """The plan for this world. A group that cannot be planned keeps its tasks and delays nobody."""
    replanned = groups_to_plan(world)
    group_plans: dict[GroupName, GroupPlan] = {}
    problems: dict[GroupName, Exception] = dict(world.wishes.problems)
    for group in replanned:
        try:
            group_plans[group] = _planned(world, group, planner, capacity)
        except Exception as error:  # noqa: BLE001 - the bulkhead around one group
            problems[group] = error
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
            answered=[one for one in world.requests if one.identity not in impossible],
            is_recovered=world.is_recovered,
            is_exclusion_new=is_exclusion_new,
            is_due=bool(world.due),
            is_limited=not all(_is_within_limits(world, world.plan, group) for group in replanned),
        )
    )
    departed = departures(world.plan, world.live, world.rules, now_ms)
    plan = Plan(Epoch(world.plan.epoch + 1), tasks, now_ms, sentence, departed, excluded)
    last = _remembered(world, plan, group_plans)
    asked = [one for one in world.moves if one.identity not in impossible]
    reasons = move_reasons(moves, group_plans, world.plan, world.live, asked)
    return Decision(
        *(plan, sentence, moves, group_plans, problems, impossible),
        loads=world.loads,
        last=last,
        move_reasons=reasons,
    )


def _housed(
    world: World,
    group_plans: dict[GroupName, GroupPlan],
    problems: dict[GroupName, Exception],
    now_ms: int,
) -> tuple[tuple[TaskPlacement, ...], dict[str, Exception]]:
    """The tasks with their instances, and the requests that failed. An answer of the planner with which no
    plan can be made is taken out, and noted as its group's problem."""
    try:
        return _placed(world, group_plans, now_ms)
    except Exception:  # noqa: BLE001 - the bulkhead around all groups: which of them is it?
        for group, answer in tuple(group_plans.items()):
            try:
                _placed(world, {group: answer}, now_ms)
            except Exception as error:  # noqa: BLE001 - the bulkhead around one group
                problems[group] = error
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
        what = "new tasks are filled by count" if request.rebalance else "what is placed stays"
        notes = (*notes, f"nothing is known of the loads, so {what}")
    return replace(answer, reasons=(*answer.reasons, *notes))


def _notes(world: World, group: GroupName) -> tuple[str, ...]:
    """What a person must know of the loads that a group is planned by."""
    report = world.loads.get(group)
    if report is None:
        return ()
    wanted = world.wishes.partitions[group] or frozenset()
    behind = len(report.at_least & wanted)
    if not behind:
        return report.notes
    note = f"{behind} of {counted(len(wanted), 'partition')} are behind: what they carry is a lower bound"
    return (*report.notes, note)


def _is_blind(world: World, group: GroupName) -> bool:
    """Whether loads were asked for and nothing is known of them: moves could only be guesses."""
    return group in world.loads and world.loads[group].is_blind


def _moved(
    world: World, contents: dict[TaskName, TaskContent]
) -> tuple[dict[TaskName, TaskContent], dict[str, Exception]]:
    """The tasks after the requests to bring partitions to an instance, and the requests that failed."""
    impossible: dict[str, Exception] = {}
    for request in world.moves:
        try:
            contents = move_to_host(contents, request, world.live)
        except Exception as error:  # noqa: BLE001 - the bulkhead around one request
            impossible[request.identity] = error
    return contents, impossible


def _excluded(world: World) -> dict[DatastreamName, frozenset[str] | None]:
    """What datastreams must leave to the others of their groups; those that are alone leave it to nobody."""
    found: dict[DatastreamName, frozenset[str] | None] = {}
    for members in groups_of(world.datastreams).values():
        for one in members if len(members) > 1 else ():
            left_out = world.matching.limits(one.name).left_out
            if one.name in world.refused:
                found[one.name] = None
            elif left_out:
                found[one.name] = left_out
    return found


def _unanswerable(world: World, problems: Mapping[GroupName, Exception]) -> dict[str, Exception]:
    """Requests that cannot be read, or are about groups that are not mirrored or could not be planned."""
    found: dict[str, Exception] = {
        one.identity: CorruptData(one.problem) for one in world.requests if isinstance(one, DamagedRequest)
    }
    for request in world.rebalances:
        if request.group in problems:
            found[request.identity] = problems[request.group]
        elif request.group not in world.groups:
            found[request.identity] = InvalidRequest(f"nothing of {request.group} is mirrored")
    return found


def planning_request(
    world: World, group: GroupName, members: Sequence[Datastream], capacity: TaskCapacity
) -> PlanningRequest:
    """What a planner must know about a group. A request to move what is placed counts only where loads are
    known. Limits that ask for more tasks count also where none are, unless these are on their way."""
    planned, wanted = world.plan.planned.get(group, frozenset()), world.wishes.partitions[group]
    asked = [request for request in world.rebalances if request.group == group]
    limits, is_too_few = _limits_of(members), False
    if world.plan.of_group(group):
        is_too_few = limits.ask_for_more(_sizes(world.plan.of_group(group), wanted))
        if _is_blind(world, group):
            asked, is_too_few = [], is_too_few and group not in world.awaited
    report, own = world.loads.get(group), world.capacities.get(group)
    knobs = [one.placement for one in members]
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
        full=any(request.full for request in asked),
        rebalance=bool(asked) or is_too_few,
        recent=world.recent.get(group, ()),
        scale_in_headroom=joint_headroom(knobs),
        calm=world.calm.get(group, ""),
        strategy=joint_strategy(knobs),
    )


def _contents(world: World, group_plans: Mapping[GroupName, GroupPlan]) -> dict[TaskName, TaskContent]:
    """Every task of the next plan, and where those run that are in force."""
    contents: dict[TaskName, TaskContent] = {}
    before = world.plan.by_task
    for group in (*world.groups, *_resting(world)):
        chosen = group_plans.get(group)
        if chosen is None:
            for placement in world.plan.of_group(group):
                load = world.task_loads.get(placement.task, 0.0)
                contents[placement.task] = TaskContent(group, placement.partitions, load, placement.instance)
            continue
        for task, partitions in ((one, held) for one, held in chosen.tasks.items() if held):
            home = before[task].instance if task in before else None
            load = chosen.loads_bytes_per_second.get(task, 0.0)
            contents[task] = TaskContent(group, partitions, load, home)
    return contents


def _resting(world: World) -> list[GroupName]:
    """Groups that keep the tasks they have: all of what they hold is paused, or they may be those of
    datastreams that cannot be read."""
    named = {one.group for one in world.datastreams}
    return [
        group
        for group in world.plan.by_group
        if group not in world.groups
        and (group in world.paused or (not world.is_whole and group not in named))
    ]
