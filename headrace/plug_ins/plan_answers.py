"""Validates the plans that placement strategies of other packages return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from headrace.plug_ins.entry_points import WHAT_IT_MAY_ANSWER
from headrace.plug_ins.guard import PATIENCE_SECONDS, PatientCalls, called
from mirror.errors import PlanRejected
from mirror.model.bounds import LARGEST_MS, shown
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.reasons import legible
from mirror.model.topics import TopicPartition
from mirror.ports import Planner

_HIGHEST: Final = 1e18
"""Maximum total rate in bytes per second."""


class CheckedStrategy:
    """Placement strategy that validates the plans of another strategy. Implements `ports.Planner`.

    An invalid plan is rejected, and the group keeps its tasks.
    """

    def __init__(self, name: str, strategy: Planner, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._name = name
        self._strategy = strategy
        self._calls = PatientCalls(patience_seconds)

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the validated plan. Raises PlanRejected, TimedOut, and the errors of the strategy.

        Partitions that the strategy omits are listed as unplaced.
        """
        subject = f"placement strategy {self._name}"
        answer: object = self._calls.ask(
            subject, lambda: called(subject, lambda: self._strategy.plan(request), PlanRejected)
        )
        if problem := _problem(answer):
            raise PlanRejected(f"{subject} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(answer, GroupPlan)
        answer.check(request)
        held = frozenset[TopicPartition]().union(*answer.tasks.values())
        return replace(
            answer,
            tasks={task: frozenset(some) for task, some in answer.tasks.items()},
            unplaced=tuple(partition for partition in request.partitions if partition not in held),
            reasons=tuple(legible(str(reason)) for reason in answer.reasons),
            stage=legible(answer.stage),
        )


def _problem(answer: object) -> str:
    if not isinstance(answer, GroupPlan):
        return f"returned {type(answer).__name__}, expected GroupPlan"
    if not isinstance(answer.tasks, Mapping) or not all(isinstance(task, str) for task in answer.tasks):
        return "returned tasks that are not a mapping by name"
    for task, held in answer.tasks.items():
        if not _are_partitions(held):
            return f"returned task {shown(task)} with values other than partitions"
    loads, causes = answer.loads_bytes_per_second, answer.move_reasons or {}
    if not isinstance(loads, Mapping) or not all(map(_is_rate, loads.values())):
        return "returned loads_bytes_per_second that is not a mapping of tasks to finite rates"
    if not isinstance(causes, Mapping) or not all(isinstance(cause, str) for cause in causes.values()):
        return "returned move_reasons that is not a mapping of partitions to text"
    for field in fields(GroupPlan):
        if problem := _problem_of_field(field.name, str(field.type), getattr(answer, field.name)):
            return problem
    return ""


def _problem_of_field(name: str, kind: str, value: object) -> str:
    match kind:
        case "int":
            is_right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_MS
        case "float":
            is_right = _is_rate(value)
        case "str":
            is_right = isinstance(value, str)
        case "tuple[TopicPartition, ...]":
            is_right = isinstance(value, Sequence) and _are_partitions(value)
        case "tuple[str, ...]" | "tuple[TaskName, ...]":
            is_right = not isinstance(value, str) and isinstance(value, Sequence)
            is_right = is_right and all(isinstance(sentence, str) for sentence in value)  # type: ignore[attr-defined]
        case _:
            is_right = True  # a mapping, validated by the caller
    return "" if is_right else f"returned invalid {name}: {shown(value)}"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _HIGHEST


def _are_partitions(value: object) -> bool:
    return isinstance(value, Collection) and all(isinstance(partition, TopicPartition) for partition in value)
