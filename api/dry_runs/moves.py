"""Remarks on the dry run of a move of partitions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from mirror.coordination.stores.requests import MoveRequest
from mirror.instance.world_view import UpdatePreview
from mirror.model.identifiers import GroupName, InstanceName, TaskName
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition
from mirror.wording import first_few

_NAMES_SHOWN: Final = 10


def remarks(request: MoveRequest, preview: UpdatePreview) -> Iterator[str]:
    """Yield remarks on partitions of the request whose lanes do not move."""
    before, after = (_homes(one.plan, request.group) for one in (preview.before, preview.after))
    missing = request.partitions - after.keys()
    settled = {
        partition
        for partition in request.partitions & after.keys()
        if before.get(partition) == after[partition]
    }
    changed = {effect.key.partition for effect in preview.effects}
    if missing and missing == request.partitions:
        yield f"no task of {request.group} contains any of these partitions: the move would fail"
    elif missing:
        yield f"no task contains {_names(missing)}: ignored"
    if settled:
        yield f"{_names(settled)}: already on {request.host}"
    if resting := request.partitions - missing - settled - changed:
        yield f"{_names(resting)}: currently not copied; only the task changes"


def _homes(plan: Plan, group: GroupName) -> dict[TopicPartition, tuple[TaskName, InstanceName | None]]:
    return {
        partition: (placement.task, placement.instance)
        for placement in plan.of_group(group)
        for partition in placement.partitions
    }


def _names(partitions: Collection[TopicPartition]) -> str:
    return first_few([str(partition) for partition in sorted(partitions)], _NAMES_SHOWN)
