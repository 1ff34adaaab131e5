"""Explains a planning decision: the plan in one sentence, and reasons for its moves and tasks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import MoveRequest, Request, cause_of
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.plan import GroupPlan, Move, Plan, TaskPlacement
from mirror.model.topics import TopicPartition
from mirror.wording import counted, first_few

_NAMES_SHOWN: Final = 5


@dataclass(frozen=True)
class PlanChange:
    """Inputs of the sentence that explains a new plan: the current plan, the next plan, and causes.

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
    """Return a sentence for a planning decision that keeps the current plan."""
    partitions = counted(sum(len(task.partitions) for task in plan.tasks), "partition")
    held = f"{partitions} of {counted(len(plan.by_group), 'datastream group')}"
    return f"no change: epoch {plan.epoch} has {held} on {counted(len(live), 'instance')}"


def changed(change: PlanChange) -> str:
    """Return a sentence that explains why the next plan replaces the current plan."""
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
    """Return a phrase for the instances that left, one for those leaving, and one for those that returned."""
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


Place = tuple[GroupName, TopicPartition]


def move_reasons(
    moves: Sequence[Move],
    group_plans: Mapping[GroupName, GroupPlan],
    before: Plan,
    live: Sequence[LiveInstance],
    requests: Sequence[MoveRequest] = (),
) -> dict[Place, str]:
    """Return the reason of each move, keyed by group and partition.

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
    """Return the reason why a task moves to another instance."""
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


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that the plan adds or removes, and the reason."""

    group: GroupName
    task: TaskName
    is_added: bool
    reason: str


def task_changes(
    before: Plan,
    tasks: Sequence[TaskPlacement],
    group_plans: Mapping[GroupName, GroupPlan],
    requests: Sequence[MoveRequest] = (),
) -> tuple[TaskChange, ...]:
    """Return the added and removed tasks with their reasons, ordered by group.

    `tasks`: tasks of the next plan. `requests`: fulfilled requests to move partitions to an instance.
    """
    after: dict[GroupName, list[TaskPlacement]] = {}
    for task in tasks:
        after.setdefault(task.group, []).append(task)
    return tuple(
        change
        for group in sorted(before.by_group.keys() | after.keys())
        for change in _GroupChange(
            group,
            {placement.task: placement for placement in before.of_group(group)},
            {placement.task: placement for placement in after.get(group, ())},
            group_plans.get(group),
            [request for request in requests if request.group == group],
        ).tasks()
    )


@dataclass(frozen=True)
class _GroupChange:
    group: GroupName
    before: Mapping[TaskName, TaskPlacement]
    after: Mapping[TaskName, TaskPlacement]
    answer: GroupPlan | None
    requests: Sequence[MoveRequest]

    def tasks(self) -> Iterator[TaskChange]:
        """Yield the added tasks of a group, then its removed tasks."""
        for task in sorted(self.after.keys() - self.before.keys()):
            yield TaskChange(self.group, task, is_added=True, reason=self._of_added(self.after[task]))
        for task in sorted(self.before.keys() - self.after.keys()):
            yield TaskChange(self.group, task, is_added=False, reason=self._of_removed(self.before[task]))

    def _of_added(self, task: TaskPlacement) -> str:
        if not self.before:
            return f"{self.group} had no tasks"
        if requested := self._requested(task):
            return requested
        if self.answer is not None and len(task.partitions) == 1:
            (partition,) = task.partitions
            if partition in self.answer.offending:
                return f"{partition} alone exceeds the usable capacity of a task"
        if len(self.after) > len(self.before):
            return self._of_count()
        return f"in place of {_listed(self.before.keys() - self.after.keys())}"

    def _of_removed(self, task: TaskPlacement) -> str:
        if task.partitions.isdisjoint(self._placed):
            unplaced = () if self.answer is None else self.answer.unplaced
            is_crowded = not task.partitions.isdisjoint(unplaced)
            return f"its partitions {'have no room within the limits' if is_crowded else 'are not mirrored'}"
        if requested := self._requested(task):
            return requested
        if len(self.after) < len(self.before):
            return self._of_count()
        return f"in place of it: {_listed(self.after.keys() - self.before.keys())}"

    @cached_property
    def _placed(self) -> frozenset[object]:
        return frozenset[object]().union(*(placement.partitions for placement in self.after.values()))

    def _requested(self, task: TaskPlacement) -> str:
        """Return the reason of the request that moved all partitions of the task, or an empty string."""
        return next(
            (cause_of(request) for request in self.requests if task.partitions <= request.partitions), ""
        )

    def _of_count(self) -> str:
        """Return the reason why the group has its number of tasks."""
        if self.answer is not None and self.answer.reasons:
            return self.answer.reasons[0]
        return f"the placement strategy chose {counted(len(self.after), 'task')}"


def _listed(names: set[TaskName]) -> str:
    return first_few(sorted(names), _NAMES_SHOWN)
