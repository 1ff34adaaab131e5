"""What an instance does about a plan: which lanes to stop, which to start, which to wait for. Pure.

First an instance says which epoch it obeys, what it still releases and of which groups it may run
anything; only then does it look what the others say, and start what nobody holds. A lane is held by a
live instance that may run something of its group and either obeys another epoch or lists the lane as
being released. While somebody of the group obeys a newer epoch nothing is started: that epoch may
have given the lane back. Of two instances that want the same lane under different epochs at least
one therefore sees the other. An instance that is gone holds nothing: its own clock stopped it before
its session could end, and the broker refuses it once the new owner has written. So no partition has
two owners at once, and only moved partitions ever stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.coordination.beginnings.first_partitions import FirstPartitions, with_beginning
from mirror.coordination.stores.membership import Holding, LiveInstance
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.starts import restart_of
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.movement.excuses import excuse_of
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition

_ANY_CLUSTER: Final[Mapping[ClusterRef, str]] = {}
_NO_RECORDS: Final[Mapping[DatastreamName, FirstPartitions | None]] = {}


@dataclass(frozen=True)
class InstanceView:
    """What one instance knows of itself. `desired`: what the plan of `epoch` gives it. `running`: its
    lanes by what they were started as, also those that still drain. `stopping`: the ones it has told to
    stop."""

    epoch: Epoch
    desired: Mapping[LaneKey, LaneSpec]
    running: Mapping[LaneKey, LaneSpec]
    stopping: frozenset[LaneKey]


@dataclass(frozen=True)
class Duties:
    """What to stop now, what to say before anything is started, and what should be started."""

    stop: tuple[LaneKey, ...]
    holding: Holding
    missing: Mapping[LaneKey, LaneSpec]


@dataclass(frozen=True)
class Starts:
    """What may be started now, and what is still held, by whom."""

    start: tuple[LaneSpec, ...]
    waiting: Mapping[LaneKey, InstanceName]


@dataclass(frozen=True)
class LaneSpecs:
    """The lanes that a plan gives to an instance. `problems`: those that cannot be described, and why."""

    specs: Mapping[LaneKey, LaneSpec]
    problems: Mapping[LaneKey, Exception]


def duties(view: InstanceView) -> Duties:
    """Safe to repeat, and safe to stop after any step: the next call finds what is left."""
    surplus = {key for key, spec in view.running.items() if needs_restart(spec, view.desired.get(key))}
    releasing = frozenset(key for key in surplus if key not in view.desired)
    groups = frozenset(key.group for keys in (view.desired, view.running) for key in keys)
    return Duties(
        stop=tuple(sorted(surplus - view.stopping)),
        holding=Holding(view.epoch, releasing, groups),
        missing={key: view.desired[key] for key in sorted(view.desired.keys() - view.running.keys())},
    )


def needs_restart(running: LaneSpec, desired: LaneSpec | None) -> bool:
    """Whether a lane cannot go on as it was started. Another quota reaches it while it runs, the ids of its
    clusters may have been stored since, and an excuse is about how it began."""
    if running == desired or desired is None:
        return running != desired
    return running != replace(
        desired,
        policy=replace(desired.policy, bytes_per_second=running.policy.bytes_per_second),
        source_id=running.source_id and desired.source_id,
        destination_id=running.destination_id and desired.destination_id,
        excuse=running.excuse,
    )


def starts(
    missing: Mapping[LaneKey, LaneSpec],
    epoch: Epoch,
    others: Mapping[InstanceName, Holding | None],
    overdue: frozenset[LaneKey] = frozenset(),
) -> Starts:
    """Which missing lanes nobody else holds. `others` was read after our own holding had been announced;
    None: the instance has not said anything yet, so it has not started anything either.

    `overdue` lanes are taken from instances that are behind: the broker refuses what those still write.
    They are not taken from one that is ahead of us.
    """
    start: list[LaneSpec] = []
    waiting: dict[LaneKey, InstanceName] = {}
    for key, spec in missing.items():
        holder = _holder(key, epoch, others, is_overdue=key in overdue)
        if holder is None:
            start.append(spec)
        else:
            waiting[key] = holder
    return Starts(tuple(start), waiting)


def lane_specs(
    plan: Plan,
    instance: InstanceName,
    datastreams: Sequence[Datastream],
    bound: Mapping[ClusterRef, str] = _ANY_CLUSTER,
    first: Mapping[DatastreamName, FirstPartitions | None] = _NO_RECORDS,
) -> LaneSpecs:
    """Every lane that the plan gives to the instance. `bound`: ids of clusters, as far as stored.
    `first`: the partitions that were there when a datastream was first planned, as far as recorded.

    A partition whose datastream is not known (deleted since the plan), or that somebody paused, gives no
    lane. Of several datastreams that share tasks and select it, the first by name describes it that may
    copy it.
    """
    placements = plan.of_instance(instance)
    members: dict[GroupName, list[Datastream]] = {one.group: [] for one in placements}
    for datastream in datastreams:
        if datastream.group in members:
            members[datastream.group].append(datastream)
    chosen: dict[tuple[GroupName, str], Datastream | None] = {}
    specs: dict[LaneKey, LaneSpec] = {}
    problems: dict[LaneKey, Exception] = {}
    for placement in placements:
        for partition in placement.partitions:
            name, key = (placement.group, partition.topic), LaneKey(placement.group, partition)
            try:
                if name not in chosen:
                    chosen[name] = _member_for(partition.topic, members[placement.group], plan)
                member = chosen[name]
                if member is not None and not member.is_paused(partition):
                    spec = with_beginning(
                        lane_spec(key, placement.task, member), member, first.get(member.name)
                    )
                    here, there = bound.get(spec.source, ""), bound.get(spec.destination, "")
                    specs[key] = replace(spec, source_id=here, destination_id=there)
            except Exception as error:  # noqa: BLE001 - the bulkhead around one lane
                problems[key] = error
    return LaneSpecs(specs, problems)


def copied(plan: Plan, group: GroupName, members: Sequence[Datastream]) -> frozenset[TopicPartition]:
    """The planned partitions of a group that one of its members copies: a paused one only keeps its tasks."""
    planned = plan.planned.get(group, frozenset())
    if all(one.status.is_mirrored for one in members):
        return planned
    topics = {one.topic for one in planned}
    possible = {topic for topic in topics if _member_for(topic, members, plan) is not None}
    return frozenset(one for one in planned if one.topic in possible)


def lane_spec(key: LaneKey, task: TaskName, datastream: Datastream) -> LaneSpec:
    """How a datastream wants one of its partitions to be copied."""
    restart = restart_of(datastream)
    return LaneSpec(
        key=key,
        task=task,
        source=datastream.source,
        destination=datastream.destination,
        destination_topic=datastream.naming.destination(key.partition.topic),
        start=restart.start.position,
        start_ms=restart.start.at_ms,
        restart_ms=restart.at_ms,
        start_offset=None if restart.at_ms else datastream.start_positions.of(key.partition),
        policy=datastream.policy,
        consumer_group=datastream.consumer_group,
        excuse=excuse_of(
            max(datastream.created_ms or 0, restart.at_ms),
            datastream.resumptions,
            key.partition.topic,
            key.partition.partition,
        ),
    )


def _member_for(topic: str, members: Sequence[Datastream], plan: Plan) -> Datastream | None:
    for datastream in members:
        is_possible = datastream.status.is_mirrored and not plan.excludes(datastream.name, topic)
        if is_possible and datastream.selection.matches(topic):
            return datastream
    return None


def _holder(
    key: LaneKey, epoch: Epoch, others: Mapping[InstanceName, Holding | None], is_overdue: bool
) -> InstanceName | None:
    for name, holding in sorted(others.items()):
        if holding is None or holding.has_given_up(key, epoch):
            continue
        if not is_overdue or holding.epoch > epoch:
            return name
    return None


def others_of(live: Sequence[LiveInstance], sequence: int) -> tuple[LiveInstance, ...]:
    """Everybody but ourselves; a ghost with our name from a dead session counts as another."""
    return tuple(instance for instance in live if instance.sequence != sequence)
