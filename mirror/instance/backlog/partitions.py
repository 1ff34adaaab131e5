"""Finds selected partitions that are not copied, and the reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mirror.coordination.plan_decision import Decision, FleetState
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicPartition


class UncopiedState(StrEnum):
    """Reason why no instance copies a partition that a datastream selects."""

    PAUSED = "paused"
    """An operator paused the partition, or paused or stopped its datastream."""
    UNPLACED = "unplaced"
    """The partition has no task, or no instance runs its task."""
    LEFT_OUT = "left out"
    """A rule excludes the partition from copying. The problem of the datastream names the rule."""


@dataclass(frozen=True, slots=True)
class UncopiedPartition:
    """A selected partition that is not copied, and the reason. `since_ms`: since when (epoch ms), None if
    unknown. `requested_by`: who requested a pause, empty if unknown."""

    datastream: DatastreamName
    group: GroupName
    partition: TopicPartition
    state: UncopiedState
    reason: str
    since_ms: int | None = None
    requested_by: str = ""


def paused_of(
    datastream: Datastream, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, UncopiedPartition]:
    """Return the selected partitions that an operator has paused, singly or with their datastream."""
    name, group, state = datastream.name, datastream.group, UncopiedState.PAUSED
    if datastream.status.is_halted:
        halt, is_paused = datastream.halt, f"the datastream is {datastream.status}"
        reason = f"{is_paused}: {halt.reason}" if halt and halt.reason else is_paused
        since_ms, requester = (halt.since_ms, halt.requested_by) if halt else (None, "")
        return {
            partition: UncopiedPartition(name, group, partition, state, reason, since_ms, requester)
            for partition in wanted
        }
    found = {}
    for partition in wanted:
        pause = datastream.pauses.get(partition.topic)
        if pause is not None and pause.covers(partition.partition):
            found[partition] = UncopiedPartition(
                name, group, partition, state, pause.reason, pause.since_ms, pause.requested_by
            )
    return found


def without_task(fleet: FleetState, decision: Decision) -> dict[GroupName, dict[TopicPartition, str]]:
    """Map the selected partitions of each group that no instance will copy to the reason."""
    plan = decision.plan or fleet.plan
    here = {instance.name for instance in fleet.live}
    found: dict[GroupName, dict[TopicPartition, str]] = {}
    for group, wanted in fleet.wishes.partitions.items():
        missing = wanted - plan.planned.get(group, frozenset()) if wanted is not None else frozenset()
        why = _why_unplaced(fleet, decision, group) if missing else ""
        reasons = dict.fromkeys(missing, why)
        for task in plan.of_group(group):
            if task.instance is None or task.instance not in here:
                reasons.update(dict.fromkeys(task.partitions, f"no instance runs task {task.task}"))
        if reasons:
            found[group] = reasons
    return found


def _why_unplaced(fleet: FleetState, decision: Decision, group: GroupName) -> str:
    if group in decision.problems:
        return reason_of(decision.problems[group])
    limits = fleet.groups[group][0].limits
    given = {"max_tasks": limits.max_tasks, "max_partitions_per_task": limits.max_partitions_per_task}
    bound = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    return f"no task has room for the partition ({bound or 'the plan omits it'})"
