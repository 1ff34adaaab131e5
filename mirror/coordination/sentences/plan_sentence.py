"""Describes a planning decision in one sentence: content of the plan, and causes of its changes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import Request, cause_of
from mirror.model.identifiers import GroupName
from mirror.model.plan import Move, Plan, TaskPlacement
from mirror.wording import counted, first_few

_NAMES_SHOWN: Final = 5


@dataclass(frozen=True)
class PlanChange:
    """Change from the current plan to the next plan.

    `before`: current plan. `tasks`: tasks of the next plan. `planned`: groups that were planned. `answered`:
    fulfilled requests. `is_recovered`: the change replaces an unreadable plan. `is_exclusion_new`: the set of
    topics that datastreams must not copy has changed. `is_due`: groups were planned because their regular
    interval had passed. `is_limited`: current tasks exceed their limits.
    """

    before: Plan
    tasks: Sequence[TaskPlacement]
    moves: Sequence[Move]
    live: Sequence[LiveInstance]
    planned: Collection[GroupName]
    answered: Sequence[Request]
    is_recovered: bool
    is_exclusion_new: bool
    is_due: bool
    is_limited: bool


def unchanged(plan: Plan, live: Sequence[LiveInstance]) -> str:
    """Describe an unchanged plan."""
    partitions = counted(sum(len(task.partitions) for task in plan.tasks), "partition")
    held = f"{partitions} of {counted(len(plan.by_group), 'datastream group')}"
    return f"no change: epoch {plan.epoch} has {held} on {counted(len(live), 'instance')}"


def changed(change: PlanChange) -> str:
    """Describe a plan that replaces the current plan."""
    added = sum(move.from_task is None for move in change.moves)
    removed = sum(move.to_task is None for move in change.moves)
    moved = len(change.moves) - added - removed
    summary = (
        f"{counted(len(change.tasks), 'task')} on {counted(len(change.live), 'instance')}, "
        f"{counted(moved, 'partition moves', 'partitions move')}"
    )
    about = f" for {first_few(sorted(change.planned), _NAMES_SHOWN)}" if change.planned else ""
    return f"{summary}{about}: {'; '.join(_causes(change, added, removed))}"


def instance_causes(before: Plan, live: Sequence[LiveInstance]) -> list[str]:
    """Describe the instances that have left, are leaving, or have returned."""
    causes = []
    owners, here = {name for name in before.by_instance if name}, {instance.name for instance in live}
    leaving = {instance.name for instance in live if instance.is_leaving}
    if departed := sorted(owners - here):
        causes.append(f"{', '.join(departed)} left")
    if going := sorted(owners & leaving):
        causes.append(f"{', '.join(going)} leaving")
    if back := sorted(before.departed.keys() & (here - leaving)):
        causes.append(f"{', '.join(back)} returned")
    return causes


def _causes(change: PlanChange, added: int, removed: int) -> list[str]:
    causes = ["the commit marker was damaged"] if change.is_recovered else []
    causes += instance_causes(change.before, change.live)
    causes.extend(cause_of(answer) for answer in change.answered[:_NAMES_SHOWN])
    if len(change.answered) > _NAMES_SHOWN:
        causes.append(counted(len(change.answered) - _NAMES_SHOWN, "further request"))
    if added or removed:
        causes.append(f"{counted(added, 'partition')} added and {removed} removed")
    if not causes and change.is_exclusion_new:
        causes.append("topic exclusions between datastreams of a group changed")
    if not causes:
        by_load = "loads changed" if change.is_due else "instances changed"
        causes.append("limits changed" if change.is_limited and not change.is_due else by_load)
    return causes
