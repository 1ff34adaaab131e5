"""What an instance does about a plan: which lanes to stop, which to start, which to wait for. Pure.

A lane is started only when every other live instance has given it up: it obeys the plan's epoch and
does not list the lane as being released. While somebody obeys a newer epoch nothing is started: that
epoch may have given the lane back. An instance that is gone holds nothing: its own clock stopped it
before its session could end, and the broker refuses it once the new owner has written. So no
partition has two owners at once, and only moved partitions ever stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.coordination.membership import Holding, LiveInstance
from mirror.model.datastream import Datastream
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition
from mirror.ports import LaneKey, LaneSpec


@dataclass(frozen=True)
class InstanceView:
    """What one instance knows when it decides.

    `running`: its lanes by what they were started as, also those that still drain. `stopping`: the
    ones it has told to stop. `others`: what the other live instances say; None: nothing yet, not even
    the epoch 0 that every instance announces before it reads its first plan.
    """

    name: InstanceName
    plan: Plan
    datastreams: tuple[Datastream, ...]
    running: Mapping[LaneKey, LaneSpec]
    stopping: frozenset[LaneKey]
    others: Mapping[InstanceName, Holding | None]


@dataclass(frozen=True)
class Steps:
    """What to do now. `waiting`: lanes that another instance has not given up yet, and which one."""

    stop: tuple[LaneKey, ...]
    start: tuple[LaneSpec, ...]
    holding: Holding
    waiting: Mapping[LaneKey, InstanceName]


def reconcile(view: InstanceView) -> Steps:
    """Safe to repeat, and safe to stop after any step: the next call finds what is left.

    The caller publishes `holding` before it starts anything.
    """
    desired = lane_specs(view.plan, view.name, view.datastreams)
    surplus = {key for key, spec in view.running.items() if desired.get(key) != spec}
    releasing = frozenset(key for key in surplus if key not in desired)
    start: list[LaneSpec] = []
    waiting: dict[LaneKey, InstanceName] = {}
    for key in sorted(desired.keys() - view.running.keys()):
        holder = _still_held_by(key, view)
        if holder is None:
            start.append(desired[key])
        else:
            waiting[key] = holder
    return Steps(
        stop=tuple(sorted(surplus - view.stopping)),
        start=tuple(start),
        holding=Holding(view.plan.epoch, releasing),
        waiting=waiting,
    )


def lane_specs(
    plan: Plan, instance: InstanceName, datastreams: Sequence[Datastream]
) -> dict[LaneKey, LaneSpec]:
    """Every lane that the plan gives to the instance.

    A partition whose datastream is not known (deleted since the plan) gives no lane.
    """
    members: dict[GroupName, list[Datastream]] = {}
    for datastream in datastreams:
        members.setdefault(datastream.group, []).append(datastream)
    specs: dict[LaneKey, LaneSpec] = {}
    for placement in plan.of_instance(instance):
        for partition in placement.partitions:
            member = _member_for(partition, members.get(placement.group, ()))
            if member is not None:
                key = LaneKey(placement.group, partition)
                specs[key] = LaneSpec(
                    key=key,
                    task=placement.task,
                    source=member.source,
                    destination=member.destination,
                    destination_topic=member.naming.destination(partition.topic),
                    start=member.start,
                )
    return specs


def _member_for(partition: TopicPartition, members: Sequence[Datastream]) -> Datastream | None:
    for datastream in members:
        if datastream.status.is_mirrored and datastream.selection.matches(partition.topic):
            return datastream
    return None


def _still_held_by(key: LaneKey, view: InstanceView) -> InstanceName | None:
    for name, holding in sorted(view.others.items()):
        if holding is not None and not holding.has_given_up(key, view.plan.epoch):
            return name
    return None


def others_of(live: Sequence[LiveInstance], sequence: int) -> tuple[LiveInstance, ...]:
    """Everybody but ourselves; a ghost with our name from a dead session counts as another."""
    return tuple(instance for instance in live if instance.sequence != sequence)
