"""What the leader decides: from one picture of the world to the next plan. Pure.

A group is planned when its wanted partitions differ from the planned ones, when somebody asked, or
when it has never been planned; every other group keeps its tasks. Then all tasks are spread over
the live instances. The same world gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror.coordination.membership import LiveInstance
from mirror.coordination.requests import RebalanceRequest
from mirror.coordination.spread import TaskLoad, spread_tasks
from mirror.errors import PlanRejected
from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef, Epoch, GroupName, TaskName
from mirror.model.load import LoadReport, TaskCapacity
from mirror.model.plan import Move, Plan, TaskPlacement, moves_between
from mirror.model.topics import TopicPartition
from mirror.ports import GroupPlan, Planner, PlanningRequest

TopicsByCluster = Mapping[ClusterRef, Mapping[str, int]]


@dataclass(frozen=True)
class World:
    """One picture of everything that a plan depends on.

    `topics`: partition counts by source cluster; a cluster that could not be asked is missing, and
    what is planned of it stays. `loads`: by group that is planned anew. `task_loads`: bytes per
    second of the tasks that are not, as far as they are known.
    """

    datastreams: tuple[Datastream, ...]
    live: tuple[LiveInstance, ...]
    plan: Plan
    topics: TopicsByCluster
    requests: tuple[RebalanceRequest, ...] = ()
    loads: Mapping[GroupName, LoadReport] = field(default_factory=dict)
    task_loads: Mapping[TaskName, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The next plan (None: the one in force is right), what it moves, and why.

    `problems`: groups that could not be planned and keep the tasks they have.
    """

    plan: Plan | None
    sentence: str
    moves: tuple[Move, ...] = ()
    group_plans: Mapping[GroupName, GroupPlan] = field(default_factory=dict)
    problems: Mapping[GroupName, str] = field(default_factory=dict)


def groups_of(datastreams: Sequence[Datastream]) -> dict[GroupName, tuple[Datastream, ...]]:
    """Datastreams that are mirrored, by group, both sorted by name."""
    groups: dict[GroupName, list[Datastream]] = {}
    for datastream in sorted(datastreams, key=lambda one: one.name):
        if datastream.status.is_mirrored:
            groups.setdefault(datastream.group, []).append(datastream)
    return {name: tuple(groups[name]) for name in sorted(groups)}


def wanted_partitions(
    members: Sequence[Datastream], topics: TopicsByCluster
) -> frozenset[TopicPartition] | None:
    """What a group should mirror; None when a source cluster of it could not be asked."""
    wanted: set[TopicPartition] = set()
    for datastream in members:
        counts = topics.get(datastream.source)
        if counts is None:
            return None
        for topic in datastream.selection.choose(counts):
            wanted.update(TopicPartition(topic, number) for number in range(counts[topic]))
    return frozenset(wanted)


def is_planned(datastream: Datastream, datastreams: Sequence[Datastream], plan: Plan) -> bool:
    """Whether the plan has something that only this one of the datastreams wants, or wanted."""
    others = [
        one
        for one in datastreams
        if one.group == datastream.group and one.name != datastream.name and one.status.is_mirrored
    ]
    placements = plan.of_group(datastream.group)
    if not others:
        return bool(placements)
    topics = {partition.topic for placement in placements for partition in placement.partitions}
    return any(not any(other.selection.matches(topic) for other in others) for topic in topics)


def groups_to_plan(world: World) -> tuple[GroupName, ...]:
    """The groups whose tasks must be decided anew; their loads are worth asking for."""
    asked = {request.group for request in world.requests}
    chosen = []
    for group, members in groups_of(world.datastreams).items():
        wanted = wanted_partitions(members, world.topics)
        planned = _planned(world.plan, group)
        if group in asked or (wanted is not None and (wanted != planned or not world.plan.of_group(group))):
            chosen.append(group)
    return tuple(chosen)


def decide(world: World, planner: Planner, capacity: TaskCapacity, now_ms: int) -> Decision:
    """The plan for this world. A group that cannot be planned keeps its tasks and delays nobody."""
    groups = groups_of(world.datastreams)
    replanned = groups_to_plan(world)
    group_plans: dict[GroupName, GroupPlan] = {}
    problems: dict[GroupName, str] = {}
    for group in replanned:
        try:
            group_plans[group] = planner.plan(planning_request(world, group, groups[group], capacity))
        except PlanRejected as error:
            problems[group] = str(error)
    tasks = _spread(world, groups, group_plans)
    if tasks == world.plan.tasks:
        return Decision(None, _sentence_unchanged(world, groups), (), group_plans, problems)
    moves = moves_between(world.plan.tasks, tasks)
    sentence = _sentence_changed(world, tasks, moves, replanned)
    plan = Plan(Epoch(world.plan.epoch + 1), tasks, now_ms, sentence)
    return Decision(plan, sentence, moves, group_plans, problems)


def planning_request(
    world: World, group: GroupName, members: Sequence[Datastream], capacity: TaskCapacity
) -> PlanningRequest:
    """What a planner must know about a group."""
    planned = _planned(world.plan, group)
    wanted = wanted_partitions(members, world.topics)
    asked = [request for request in world.requests if request.group == group]
    report = world.loads.get(group)
    return PlanningRequest(
        group=group,
        partitions=tuple(sorted(planned if wanted is None else wanted)),
        loads=report.loads if report else {},
        capacity=capacity,
        limits=members[0].limits,
        current={
            partition: placement.task
            for placement in world.plan.of_group(group)
            for partition in placement.partitions
        },
        full=any(request.full for request in asked),
        rebalance=bool(asked),
    )


def _planned(plan: Plan, group: GroupName) -> frozenset[TopicPartition]:
    return frozenset().union(*(placement.partitions for placement in plan.of_group(group)))


def _spread(
    world: World,
    groups: Mapping[GroupName, Sequence[Datastream]],
    group_plans: Mapping[GroupName, GroupPlan],
) -> tuple[TaskPlacement, ...]:
    contents: dict[TaskName, tuple[GroupName, frozenset[TopicPartition], float]] = {}
    for group in groups:
        chosen = group_plans.get(group)
        if chosen is not None:
            for task, partitions in chosen.tasks.items():
                contents[task] = (group, partitions, chosen.loads_bytes_per_second.get(task, 0.0))
        else:
            for placement in world.plan.of_group(group):
                load = world.task_loads.get(placement.task, 0.0)
                contents[placement.task] = (group, placement.partitions, load)
    before = world.plan.by_task
    homes = spread_tasks(
        [
            TaskLoad(task, load, before[task].instance if task in before else None)
            for task, (_, _, load) in sorted(contents.items())
        ],
        world.live,
    )
    # Group by group, as the plan store reads them: else a plan would differ from itself.
    in_order = sorted(contents.items(), key=lambda item: (item[1][0], item[0]))
    return tuple(
        TaskPlacement(task, group, homes[task], partitions) for task, (group, partitions, _) in in_order
    )


def _sentence_unchanged(world: World, groups: Mapping[GroupName, object]) -> str:
    return (
        f"nothing to do: epoch {world.plan.epoch} holds {len(world.plan.owners)} partitions of "
        f"{len(groups)} datastream groups on {len(world.live)} instances"
    )


def _sentence_changed(
    world: World, tasks: tuple[TaskPlacement, ...], moves: tuple[Move, ...], replanned: Sequence[GroupName]
) -> str:
    causes = []
    gone = sorted({p.instance for p in world.plan.tasks if p.instance} - {i.name for i in world.live})
    if gone:
        causes.append(f"{', '.join(gone)} left")
    causes.extend(f"{request.requested_by} asked: {request.reason}" for request in world.requests)
    added = sum(move.from_task is None for move in moves)
    removed = sum(move.to_task is None for move in moves)
    if added or removed:
        causes.append(f"{added} partitions came and {removed} went")
    if not causes:
        causes.append("instances changed")
    moved = len(moves) - added - removed
    what = f"{len(tasks)} tasks on {len(world.live)} instances, {moved} partitions move"
    about = f" for {', '.join(replanned)}" if replanned else ""
    return f"{what}{about}: {'; '.join(causes)}"
