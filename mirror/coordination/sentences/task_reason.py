"""Explains why a plan adds or removes a task. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mirror.coordination.stores.requests import MoveRequest, cause_of
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.plan import GroupPlan, Plan, TaskPlacement
from mirror.wording import counted, first_few

_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that the plan adds or removes."""

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
    """Return every added and removed task with its reason, by group.

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
        """Yield the added tasks, then the removed tasks."""
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
        """Return the cause of the request that moved all partitions of the task, or an empty string."""
        return next(
            (cause_of(request) for request in self.requests if task.partitions <= request.partitions), ""
        )

    def _of_count(self) -> str:
        """Return why the planner chose the number of tasks."""
        if self.answer is not None and self.answer.reasons:
            return self.answer.reasons[0]
        return f"the placement strategy chose {counted(len(self.after), 'task')}"


def _listed(names: set[TaskName]) -> str:
    return first_few(sorted(names), _NAMES_SHOWN)
