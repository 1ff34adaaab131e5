"""Formats a plan as JSON, which `headrace plan` prints, or as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assigner.answer.explain import move_sentence
from assigner.answer.placement_answer import PlacementAnswer
from assigner.what_if.document import Label, PlanningQuestion
from assigner.what_if.hosts import place_tasks


def to_json(question: PlanningQuestion, answer: PlacementAnswer, names: Sequence[Label]) -> dict[str, Any]:
    """Return a what-if plan as a document; it contains `hosts` only if the input names hosts."""
    by_name = sorted(range(len(answer.task_of)), key=answer.demand.partitions.__getitem__)
    document: dict[str, Any] = {
        "tasks": answer.tasks,
        "required_tasks": answer.required_tasks,
        "task_lower_bound": answer.task_lower_bound,
        "max_load_bytes_per_second": answer.max_load,
        "max_load_lower_bound_bytes_per_second": answer.max_load_lower_bound,
        "placement": [
            {**_named(answer, position), "task": names[answer.task_of[position]]}
            for position in by_name
            if answer.task_of[position] >= 0
        ],
        "moves": [
            {
                **_named(answer, position),
                "from": names[answer.current[position]],
                "to": names[answer.task_of[position]],
                "reason": move_sentence(answer, question.capacity, position, names),
            }
            for position in answer.moves.tolist()
        ],
        "moved_bytes_per_second": answer.moved_bytes_per_second,
        "moved_lower_bound_bytes_per_second": answer.moved_lower_bound,
        "offending": [_named(answer, position) for position in answer.offending],
        "overloaded_tasks": [names[task] for task in answer.overloaded],
        "estimated": [_named(answer, position) for position in answer.estimated],
        "defaulted": [_named(answer, position) for position in answer.defaulted],
        "unplaced": [_named(answer, position) for position in answer.unplaced],
        "reasons": list(answer.reasons),
        "stage": answer.stage,
        "cut_short": answer.cut_short,
    }
    if question.hosts:
        document["hosts"] = _hosts(question, answer, names)
    return document


def _hosts(
    question: PlanningQuestion, answer: PlacementAnswer, names: Sequence[Label]
) -> list[dict[str, Any]]:
    alive = np.flatnonzero(answer.alive).tolist()
    numbers = {f"{names[task]} {task}": task for task in alive}  # 1 and "1" are different names
    loads = {name: float(answer.loads[task, 0]) for name, task in numbers.items()}
    return [
        {
            "name": host,
            "tasks": [names[numbers[task]] for task in tasks],
            "load_bytes_per_second": sum(loads[task] for task in tasks),
        }
        for host, tasks in place_tasks(loads, question.hosts).items()
    ]


def _named(answer: PlacementAnswer, position: int) -> dict[str, Any]:
    partition = answer.demand.partitions[position]
    return {"topic": partition.topic, "partition": partition.partition}


def task_rows(
    question: PlanningQuestion, answer: PlacementAnswer, names: Sequence[Label]
) -> list[dict[str, Any]]:
    """Return a table row for every task with its load, in numbers and in percent of usable capacity."""
    usable = question.capacity.usable_bytes_per_second
    counts = np.bincount(answer.task_of[answer.task_of >= 0], minlength=len(answer.alive))
    before = np.bincount(answer.current[answer.current >= 0], minlength=len(answer.alive))
    return [
        {
            "task": names[task],
            "partitions": int(counts[task]),
            "partitions_before": int(before[task]),
            "bytes_per_second": round(float(answer.loads[task, 0])),
            "messages_per_second": round(float(answer.loads[task, 1])),
            "percent_of_usable": f"{100 * answer.loads[task, 0] / usable:.1f}",
        }
        for task in np.flatnonzero(answer.alive).tolist()
    ]
