"""Verifies every plan independently of the stages that made it.

The verifier recomputes everything from the caller's input. It checks facts (each partition once, limits,
loads, moves, lists, bounds that contradict the plan), not quality.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from assigner.answer.placement_answer import PlacementAnswer
from assigner.problem.loads import LEVELS
from mirror.errors import PlanRejected
from mirror.model.load import LoadLevel, TaskCapacity, TaskLimits
from mirror.wording import counted

_ROUNDING: Final = 2e-3
"""Tolerance for rounded partition sizes and floating-point errors (bytes/s)."""


def check_plan(plan: PlacementAnswer, capacity: TaskCapacity, limits: TaskLimits) -> None:
    """Raise PlanRejected if the plan breaks a limit or reports wrong loads, moves or bounds."""
    _check_tasks(plan, limits)
    _check_partitions(plan, limits)
    _check_loads(plan, capacity, limits)
    _check_moves(plan)
    _check_lists(plan, capacity)
    _check_bounds(plan)


def _reject(message: str) -> None:
    raise PlanRejected(f"invalid plan, not published: {message}", advice="report this as a defect")


def _check_tasks(plan: PlacementAnswer, limits: TaskLimits) -> None:
    tasks, partitions = int(np.count_nonzero(plan.alive)), len(plan.demand.partitions)
    if tasks < 1:
        _reject("the plan has no task")
    if limits.max_tasks is not None and tasks > limits.max_tasks and not plan.moves_left:
        _reject(f"the plan has {counted(tasks, 'task')}, max_tasks is {limits.max_tasks}")
    if tasks < limits.min_tasks and not (plan.min_tasks_unmet and tasks >= partitions):
        _reject(f"the plan has {counted(tasks, 'task')}, min_tasks is {limits.min_tasks}")


def _check_partitions(plan: PlacementAnswer, limits: TaskLimits) -> None:
    if plan.task_of.shape != (len(plan.demand.partitions),):
        _reject("the plan does not have one entry per partition")
    outside = np.flatnonzero((plan.task_of < -1) | (plan.task_of >= len(plan.alive)))
    if len(outside):
        _reject(f"partition {plan.demand.partitions[outside[0]]} is on a task that does not exist")
    missing = np.flatnonzero(plan.task_of < 0).tolist()
    if missing != sorted(plan.unplaced):
        _reject(
            f"{counted(len(missing), 'partition has', 'partitions have')} no "
            f"task but {len(plan.unplaced)} are reported"
        )
    dead = np.flatnonzero((plan.task_of >= 0) & ~plan.alive[plan.task_of])
    if len(dead):
        _reject(f"partition {plan.demand.partitions[dead[0]]} is on a removed task")
    cap, most = limits.max_partitions_per_task, limits.max_tasks
    if missing and (cap is None or most is None or cap * most >= len(plan.task_of)):
        _reject(f"partition {plan.demand.partitions[missing[0]]} has no task although there is room")
    counts = np.bincount(plan.task_of[plan.task_of >= 0], minlength=len(plan.alive))
    if cap is not None and counts.max(initial=0) > cap and not plan.moves_left:
        _reject(
            f"task {int(counts.argmax())} has {counted(int(counts.max()), 'partition')}, {cap} are allowed"
        )


def _check_loads(plan: PlacementAnswer, capacity: TaskCapacity, limits: TaskLimits) -> None:
    for dimension, usable in _dimensions(capacity):
        after = _sum(plan, plan.task_of, dimension)
        before = _sum(plan, plan.current, dimension)
        counts = np.bincount(plan.task_of[plan.task_of >= 0], minlength=len(plan.alive))
        slack = _ROUNDING * (1 + counts) + 1e-9 * after
        _same("load", after, plan.loads[:, dimension], slack)
        _same("load before", before, plan.loads_before[:, dimension], slack + _ROUNDING * len(plan.current))
        over = after > usable + slack
        unlisted = np.flatnonzero(over & ~_mask(plan.overloaded, len(over)))
        if len(unlisted):
            _reject(f"task {unlisted[0]} carries {after[unlisted[0]]:.0f} of {usable} and is not reported")
        binds = limits.max_tasks is not None and plan.tasks >= limits.max_tasks
        worse = np.flatnonzero(over & (counts > 1) & (after > before + slack))
        if len(worse) and not binds and not plan.moves_left and plan.tasks < len(plan.task_of):
            _reject(f"task {worse[0]} is raised to {after[worse[0]]:.0f} of {usable} unnecessarily")


def _check_moves(plan: PlacementAnswer) -> None:
    moved = (plan.current >= 0) & (plan.task_of >= 0) & (plan.task_of != plan.current)
    bytes_ = float(plan.demand.rates[moved, 0].sum())
    if abs(bytes_ - plan.moved_bytes_per_second) > _ROUNDING * (1 + moved.sum()) + 1e-9 * bytes_:
        _reject(f"the plan moves {bytes_:.0f} bytes/s and reports {plan.moved_bytes_per_second:.0f}")
    unexplained = np.flatnonzero(moved & (plan.move_causes == 0))
    if len(unexplained):
        _reject(f"the move of partition {plan.demand.partitions[unexplained[0]]} has no reason")


def _check_lists(plan: PlacementAnswer, capacity: TaskCapacity) -> None:
    rates = plan.demand.rates
    offending = np.zeros(len(rates), dtype=bool)
    for dimension, usable in _dimensions(capacity):
        offending |= rates[:, dimension] > usable + _ROUNDING
    missing = set(np.flatnonzero(offending).tolist()) - set(plan.offending)
    if missing:
        _reject(f"partition {plan.demand.partitions[min(missing)]} is offending and is not reported")
    for level, listed in ((LoadLevel.TOPIC, plan.estimated), (LoadLevel.DEFAULT, plan.defaulted)):
        found = np.flatnonzero(plan.demand.levels == LEVELS.index(level)).tolist()
        if found != sorted(listed):
            _reject(
                f"{counted(len(found), 'load is', 'loads are')} of level "
                f"{level} and {len(listed)} are reported"
            )


def _check_bounds(plan: PlacementAnswer) -> None:
    highest = float(plan.loads[:, 0].max(initial=0.0))
    slack = _ROUNDING * (1 + len(plan.task_of)) + 1e-9 * highest
    if abs(highest - plan.max_load) > slack:
        _reject(f"the fullest task carries {highest:.0f}, but {plan.max_load:.0f} is reported")
    if not plan.unplaced and plan.max_load_lower_bound > highest + slack:
        _reject(f"the bound {plan.max_load_lower_bound:.0f} is above the maximum {highest:.0f}")
    if plan.task_lower_bound > plan.required_tasks:
        _reject(
            f"the bound of {counted(plan.task_lower_bound, 'task')} is "
            f"above the required {plan.required_tasks}"
        )
    if not plan.moves_left and plan.moved_lower_bound > plan.moved_bytes_per_second + slack:
        _reject(f"the bound on moved bytes {plan.moved_lower_bound:.0f} exceeds the moved bytes")


def _dimensions(capacity: TaskCapacity) -> list[tuple[int, int]]:
    usable = [(0, capacity.bytes_per_second * capacity.utilisation_percent // 100)]
    if capacity.messages_per_second is not None:
        usable.append((1, capacity.messages_per_second * capacity.utilisation_percent // 100))
    return usable


def _sum(plan: PlacementAnswer, tasks: np.ndarray, dimension: int) -> np.ndarray:
    placed = tasks >= 0
    weights = plan.demand.rates[placed, dimension]
    return np.bincount(tasks[placed], weights=weights, minlength=len(plan.alive))


def _same(quantity: str, true: np.ndarray, reported: np.ndarray, slack: np.ndarray) -> None:
    wrong = np.flatnonzero(np.abs(true - reported) > slack)
    if len(wrong):
        task = int(wrong[0])
        _reject(f"the {quantity} of task {task} is {true[task]:.0f}, {reported[task]:.0f} is reported")


def _mask(positions: Iterable[int], length: int) -> np.ndarray:
    mask = np.zeros(length, dtype=bool)
    mask[list(positions)] = True
    return mask
