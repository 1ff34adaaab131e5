"""Effects of a change on lanes: starts, stops, moves, and restarts with the reason. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from mirror.coordination.reconcile import lane_specs, needs_restart
from mirror.model.datastreams.datastream import Datastream, StartPosition
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import GroupName, InstanceName, TaskName
from mirror.model.plan import Plan
from mirror.model.topics import SourcePosition
from mirror.wording import counted, first_few

_IN_ITS_PLACE: Final = frozenset({"key", "task", "exemption"})
_QUOTA: Final = "bytes_per_second"


@dataclass(frozen=True, slots=True)
class LaneHome:
    """Task and instance that run a lane (the copying of one partition)."""

    task: TaskName
    instance: InstanceName


@dataclass(frozen=True, slots=True)
class LaneEffect:
    """Effect of a change on one lane.

    `before`, `after`: task and instance of the lane, None if the lane does not run. `reason`: reason for a
    restart without a move.
    """

    key: LaneKey
    before: LaneHome | None
    after: LaneHome | None
    reason: str = ""

    @property
    def is_move(self) -> bool:
        """Return whether the lane runs in another task or instance after the change."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True)
class PlannedDatastreams:
    """Datastreams with the plan of their tasks, before or after a change."""

    datastreams: Sequence[Datastream]
    plan: Plan

    @property
    def tasks(self) -> int:
        """Number of tasks with partitions of the datastreams."""
        groups = {datastream.group for datastream in self.datastreams}
        return sum(
            bool(placement.partitions)
            for group in groups
            for placement in self.plan.of_group(GroupName(group))
        )

    def lanes(self) -> Mapping[LaneKey, tuple[LaneHome, LaneSpec]]:
        """Return the lanes that run once every instance has applied the plan."""
        return {
            key: (LaneHome(spec.task, instance), spec)
            for instance in self.plan.by_instance
            if instance is not None
            for key, spec in lane_specs(self.plan, instance, self.datastreams).specs.items()
        }


def effects(before: PlannedDatastreams, after: PlannedDatastreams) -> tuple[LaneEffect, ...]:
    """Return the lanes that start, stop, move or restart because of a change, sorted."""
    were, will = before.lanes(), after.lanes()
    return tuple(_effects(were, will))


def _effects(
    were: Mapping[LaneKey, tuple[LaneHome, LaneSpec]], will: Mapping[LaneKey, tuple[LaneHome, LaneSpec]]
) -> Iterator[LaneEffect]:
    for key in sorted(were.keys() | will.keys()):
        if key not in were:
            yield LaneEffect(key, None, will[key][0])
        elif key not in will:
            yield LaneEffect(key, were[key][0], None)
        else:
            (home, spec), (next_home, next_spec) = were[key], will[key]
            if home != next_home:
                yield LaneEffect(key, home, next_home)
            elif needs_restart(spec, next_spec):
                yield LaneEffect(key, home, next_home, _differing_fields(spec, next_spec))


def _differing_fields(lane_spec: LaneSpec, other: LaneSpec) -> str:
    """Return a message with the names of changed lane properties that take effect only when a lane starts."""
    found = [
        field.name
        for field in fields(LaneSpec)
        if field.name not in _IN_ITS_PLACE | {"policy"}
        and getattr(lane_spec, field.name) != getattr(other, field.name)
    ]
    found += [
        field.name
        for field in fields(lane_spec.policy)
        if field.name != _QUOTA and getattr(lane_spec.policy, field.name) != getattr(other.policy, field.name)
    ]
    return f"{', '.join(name.replace('_', ' ') for name in found)}: takes effect only when a lane starts"


def stops_in_words(found: Sequence[LaneEffect]) -> tuple[str, ...]:
    """Return a message with the topics whose lanes stop, and the number of lanes. Empty if no lane stops."""
    topics = Counter(effect.key.partition.topic for effect in found if effect.after is None)
    if not topics:
        return ()
    listed = first_few([f"{topic} ({count})" for topic, count in topics.most_common()])
    return (f"{counted(topics.total(), 'partition stops', 'partitions stop')}: {listed}",)


def waiting_records(spec: LaneSpec, checkpoint: int | None, position: SourcePosition) -> int | None:
    """Return the number of offsets from a lane's start position to the end of its partition.

    This is an upper bound of the number of uncopied records. Returns None if the start position is unknown.
    `checkpoint`: stored position, or None.
    """
    begin = _beginning(spec, position) if checkpoint is None else checkpoint
    if begin is None or begin > position.end:  # the topic was recreated or truncated
        return None
    return position.end - max(begin, position.first)


def _beginning(spec: LaneSpec, position: SourcePosition) -> int | None:
    """Return the start offset of a lane without a checkpoint.

    Returns None if only the brokers can determine it: for a timestamp, or the local log start.
    """
    if spec.start_offset is not None:
        return spec.start_offset
    if spec.start.is_committed and position.committed is not None:
        return position.committed
    if spec.start.is_latest:
        return position.end
    is_known = spec.start in {StartPosition.EARLIEST, StartPosition.COMMITTED}
    return position.first if is_known else None
