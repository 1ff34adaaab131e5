"""Explains why a partition changes its task or instance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import MoveRequest, cause_of
from mirror.model.identifiers import GroupName
from mirror.model.plan import GroupPlan, Move, Plan
from mirror.model.topics import TopicPartition

Place = tuple[GroupName, TopicPartition]


def move_reasons(
    moves: Sequence[Move],
    group_plans: Mapping[GroupName, GroupPlan],
    before: Plan,
    live: Sequence[LiveInstance],
    requests: Sequence[MoveRequest] = (),
) -> dict[Place, str]:
    """Return a reason for every move.

    `requests`: fulfilled requests to move partitions to an instance.
    """
    requested = {
        (request.group, partition): cause_of(request)
        for request in requests
        for partition in request.partitions
    }
    found = {}
    for move in moves:
        place = move.group, move.partition
        answer = group_plans.get(move.group)
        if place in requested and move.from_task is not None and move.to_task is not None:
            found[place] = requested[place]
        elif move.from_task == move.to_task:
            found[place] = _of_instance(move, before, live)
        else:
            found[place] = _of_task(move, answer)
    return found


def _of_task(move: Move, answer: GroupPlan | None) -> str:
    if move.from_task is None:
        return "new partition"
    if move.to_task is None:
        is_unplaced = answer is not None and move.partition in answer.unplaced
        return "the limits leave no room for it" if is_unplaced else "no longer mirrored"
    given = (answer.move_reasons or {}).get(move.partition, "") if answer is not None else ""
    return given or "the placement strategy chose another task"


def _of_instance(move: Move, before: Plan, live: Sequence[LiveInstance]) -> str:
    """Return why the instance of a task changes."""
    here = {instance.name for instance in live}
    leaving = {instance.name for instance in live if instance.is_leaving}
    if move.to_instance is None:
        return "no instance can run its task"
    if move.from_instance is None:
        return f"its task had no instance and now runs on {move.to_instance}"
    if move.from_instance not in here:
        return f"its task runs on {move.to_instance}: {move.from_instance} left"
    if move.from_instance in leaving:
        return f"its task runs on {move.to_instance}: {move.from_instance} is leaving"
    if move.to_instance in before.departed:
        return f"its task runs on {move.to_instance}, which returned"
    if move.to_instance not in before.by_instance:
        return f"its task runs on {move.to_instance}, which had no tasks"
    return f"its task runs on {move.to_instance}: tasks are balanced over the instances"
