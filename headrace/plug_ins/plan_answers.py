"""What a placement strategy of another package answers, looked at before anything is made of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from headrace.plug_ins.entry_points import WHAT_IT_MAY_ANSWER
from headrace.plug_ins.guard import PATIENCE_SECONDS, PatientCalls, called
from mirror.errors import PlanRejected, legible
from mirror.model.bounds import LARGEST_MS, shown
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import Planner

_HIGHEST: Final = 1e18
"""Bytes per second of all partitions together."""


class CheckedStrategy:
    """Satisfies `ports.Planner`. An answer that cannot be is none: the group keeps its tasks."""

    def __init__(self, name: str, strategy: Planner, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._name = name
        self._strategy = strategy
        self._calls = PatientCalls(patience_seconds)

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """The answer, in which partitions that it does not name have no task. Raises PlanRejected, TimedOut,
        and what the strategy raises."""
        what = f"the placement strategy {self._name}"
        answer: object = self._calls.ask(
            what, lambda: called(what, lambda: self._strategy.plan(request), PlanRejected)
        )
        if problem := _problem(answer):
            raise PlanRejected(f"{what} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(answer, GroupPlan)
        answer.check(request)
        held = frozenset[TopicPartition]().union(*answer.tasks.values())
        return replace(
            answer,
            tasks={task: frozenset(some) for task, some in answer.tasks.items()},
            unplaced=tuple(one for one in request.partitions if one not in held),
            reasons=tuple(legible(str(one)) for one in answer.reasons),
            stage=legible(answer.stage),
        )


def _problem(answer: object) -> str:
    if not isinstance(answer, GroupPlan):
        return f"answers with {type(answer).__name__}, not GroupPlan"
    if not isinstance(answer.tasks, Mapping) or not all(isinstance(one, str) for one in answer.tasks):
        return "has tasks that are not by name"
    for task, held in answer.tasks.items():
        if not _are_partitions(held):
            return f"gives {shown(task)} something else than partitions"
    loads, causes = answer.loads_bytes_per_second, answer.move_reasons or {}
    if not isinstance(loads, Mapping) or not all(map(_is_rate, loads.values())):
        return "has loads that are not finite rates by task"
    if not isinstance(causes, Mapping) or not all(isinstance(one, str) for one in causes.values()):
        return "has causes of moves that are not texts by partition"
    for one in fields(GroupPlan):
        if problem := _problem_of_field(one.name, str(one.type), getattr(answer, one.name)):
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
            is_right = is_right and all(isinstance(one, str) for one in value)  # type: ignore[attr-defined]
        case _:
            is_right = True  # a mapping: looked at before
    return "" if is_right else f"says {name} is {shown(value)}"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _HIGHEST


def _are_partitions(value: object) -> bool:
    return isinstance(value, Collection) and all(isinstance(one, TopicPartition) for one in value)
