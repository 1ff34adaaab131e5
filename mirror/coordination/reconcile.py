"""Decides which lanes an instance must stop, start or wait for. Pure.

An instance first publishes its holding: the plan epoch that it follows, the lanes that it is still releasing,
and the groups whose lanes it may run. Then it reads the holdings of the other instances, and starts the lanes
that no other instance may still run. A live instance may still run a lane if it may run lanes of the group,
and either follows another epoch or is still releasing the lane. No lane is started while an instance of the
group follows a newer epoch, because that epoch may assign the lane to it.

Each instance publishes before it reads. Of two instances that want the same lane, at least one therefore sees
the holding of the other. An instance without a session runs no lanes: it stops by its own clock before its
session can expire. If a former owner writes nevertheless, the broker rejects its writes once the new owner
has written. A partition therefore never has two owners, and only moved partitions stop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.coordination.datastream_records.first_partitions import FirstPartitions, with_beginning
from mirror.coordination.stores.membership import Holding, LiveInstance
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.datastreams.starts import restart_of
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.movement.exemptions import exemption_of
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition

_ANY_CLUSTER: Final[Mapping[ClusterRef, str]] = {}
_NO_RECORDS: Final[Mapping[DatastreamName, FirstPartitions | None]] = {}


@dataclass(frozen=True)
class InstanceView:
    """What one instance does and should do: the input of the reconciliation.

    `desired`: lanes that the plan of `epoch` assigns to the instance. `running`: running and draining lanes,
    with the specs with which they were started. `stopping`: lanes that are being stopped.
    """

    epoch: Epoch
    desired: Mapping[LaneKey, LaneSpec]
    running: Mapping[LaneKey, LaneSpec]
    stopping: frozenset[LaneKey]


@dataclass(frozen=True)
class LaneDuties:
    """Result of the reconciliation: lanes to stop, the holding to publish, and lanes to start afterwards."""

    stop: tuple[LaneKey, ...]
    holding: Holding
    missing: Mapping[LaneKey, LaneSpec]


@dataclass(frozen=True)
class LaneStarts:
    """Missing lanes, divided into startable lanes and lanes that another instance may still run."""

    start: tuple[LaneSpec, ...]
    waiting: Mapping[LaneKey, InstanceName]


@dataclass(frozen=True)
class LaneSpecs:
    """Lanes that a plan assigns to an instance.

    `problems`: error for each lane whose spec could not be built.
    """

    specs: Mapping[LaneKey, LaneSpec]
    problems: Mapping[LaneKey, Exception]


def duties(view: InstanceView) -> LaneDuties:
    """Return the lanes that an instance must stop and start, and the holding to publish.

    All duties are idempotent. After an interruption, the next call returns the remaining duties.
    """
    surplus = {key for key, spec in view.running.items() if needs_restart(spec, view.desired.get(key))}
    releasing = frozenset(key for key in surplus if key not in view.desired)
    groups = frozenset(key.group for keys in (view.desired, view.running) for key in keys)
    return LaneDuties(
        stop=tuple(sorted(surplus - view.stopping)),
        holding=Holding(view.epoch, releasing, groups),
        missing={key: view.desired[key] for key in sorted(view.desired.keys() - view.running.keys())},
    )


def needs_restart(running: LaneSpec, desired: LaneSpec | None) -> bool:
    """Return whether a running lane must restart to apply its new spec. A new quota, newly stored cluster
    ids, and the grace period of a start require no restart."""
    if running == desired or desired is None:
        return running != desired
    return running != replace(
        desired,
        policy=replace(desired.policy, bytes_per_second=running.policy.bytes_per_second),
        source_id=running.source_id and desired.source_id,
        destination_id=running.destination_id and desired.destination_id,
        exemption=running.exemption,
    )


def starts(
    missing: Mapping[LaneKey, LaneSpec],
    epoch: Epoch,
    others: Mapping[InstanceName, Holding | None],
    overdue: frozenset[LaneKey] = frozenset(),
) -> LaneStarts:
    """Divide the missing lanes into those that may start, and those that another instance may still run.

    `others`: holdings of the other instances, read after this instance has published its own. None: an
    instance has not published a holding, and therefore runs no lane.

    `overdue`: lanes to take over from instances with an older epoch. The broker rejects the writes of these
    instances. Lanes are never taken over from an instance with a newer epoch.
    """
    start: list[LaneSpec] = []
    waiting: dict[LaneKey, InstanceName] = {}
    for key, spec in missing.items():
        holder = _holder(key, epoch, others, is_overdue=key in overdue)
        if holder is None:
            start.append(spec)
        else:
            waiting[key] = holder
    return LaneStarts(tuple(start), waiting)


def lane_specs(
    plan: Plan,
    instance: InstanceName,
    datastreams: Sequence[Datastream],
    bound: Mapping[ClusterRef, str] = _ANY_CLUSTER,
    first: Mapping[DatastreamName, FirstPartitions | None] = _NO_RECORDS,
) -> LaneSpecs:
    """Return every lane that the plan assigns to the instance.

    `bound`: stored ids of clusters. `first`: initial partitions of the datastreams.

    Paused partitions, and partitions of a deleted datastream, have no lane. If several datastreams of a group
    select a partition, the first by name that may copy the partition determines the spec.
    """
    placements = plan.of_instance(instance)
    members: dict[GroupName, list[Datastream]] = {placement.group: [] for placement in placements}
    for datastream in datastreams:
        if datastream.group in members:
            members[datastream.group].append(datastream)
    chosen: dict[tuple[GroupName, str], Datastream | None] = {}
    specs: dict[LaneKey, LaneSpec] = {}
    problems: dict[LaneKey, Exception] = {}
    for placement in placements:
        for partition in placement.partitions:
            name, key = (placement.group, partition.topic), LaneKey(placement.group, partition)
            with Bulkhead(partial(problems.__setitem__, key)):
                if name not in chosen:
                    chosen[name] = _member_for(partition.topic, members[placement.group], plan)
                member = chosen[name]
                if member is not None and not member.is_paused(partition):
                    spec = with_beginning(
                        lane_spec(key, placement.task, member), member, first.get(member.name)
                    )
                    here, there = bound.get(spec.source, ""), bound.get(spec.destination, "")
                    specs[key] = replace(spec, source_id=here, destination_id=there)
    return LaneSpecs(specs, problems)


def copied(plan: Plan, group: GroupName, members: Sequence[Datastream]) -> frozenset[TopicPartition]:
    """Return the planned partitions of a group, without topics that only paused members select."""
    planned = plan.planned.get(group, frozenset())
    if all(member.status.is_mirrored for member in members):
        return planned
    topics = {partition.topic for partition in planned}
    possible = {topic for topic in topics if _member_for(topic, members, plan) is not None}
    return frozenset(partition for partition in planned if partition.topic in possible)


def lane_spec(key: LaneKey, task: TaskName, datastream: Datastream) -> LaneSpec:
    """Return the spec of a lane from the definition of its datastream.

    Transforms are not applied to the canary topic, because they could drop or change canary records.
    """
    restart, policy = restart_of(datastream), datastream.policy
    if policy.transforms and key.partition.topic == datastream.selection.canary:
        policy = replace(policy, transforms=())
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
        policy=policy,
        consumer_group=datastream.consumer_group,
        exemption=exemption_of(
            max(datastream.created_ms or 0, restart.at_ms),
            datastream.resumptions,
            key.partition.topic,
            key.partition.partition,
        ),
        checkpoint_seconds=datastream.following_groups.checkpoint_seconds,
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
    """Return all live instances other than this one.

    Includes a stale entry of an expired session with the name of this instance.
    """
    return tuple(instance for instance in live if instance.sequence != sequence)


def quotas_by_task(
    task_counts: Mapping[GroupName, int], datastreams: Iterable[Datastream]
) -> dict[GroupName, float]:
    """Map each group with a quota to the quota of each of its tasks in bytes per second.

    All tasks of a group get the same share, because their loads are about equal. Every instance computes the
    shares independently, and their sum never exceeds the quota. Datastreams of one group share the sum of
    their quotas.
    """
    totals: Counter[GroupName] = Counter()
    for datastream in datastreams:
        with Bulkhead():  # a datastream without a policy has no lanes
            if quota := datastream.policy.bytes_per_second:
                totals[datastream.group] += quota
    return {group: total / task_counts[group] for group, total in totals.items() if task_counts.get(group)}
