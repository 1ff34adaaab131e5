"""Explains plans: a cause for every move, and sentences about the whole plan."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.answer.placement_answer import PlacementAnswer
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import UNITS, PlacementProblem, TaskOf
from assigner.stages.hysteresis import carried
from assigner.stages.outcome import StageOutcome
from mirror.model.load import TaskCapacity
from mirror.wording import counted, rate_text


class MoveCause(IntEnum):
    """Cause of moving a partition to another task."""

    NONE = 0
    FULL = 1
    DRAINED = 2
    ISOLATED = 3
    CROWDED = 4
    OVERLOADED = 5
    LEVELLED = 6
    MAKES_ROOM = 7
    EMPTIED = 8


_TEXTS: Final = {
    MoveCause.FULL: "a full plan places everything from scratch",
    MoveCause.DRAINED: "its task is removed",
    MoveCause.ISOLATED: "an offending partition has the task for itself",
    MoveCause.CROWDED: "its task has more partitions than allowed",
    MoveCause.OVERLOADED: "its task is overloaded",
    MoveCause.LEVELLED: "its task has more load than the rebalance allows",
    MoveCause.MAKES_ROOM: "it makes room for another partition",
    MoveCause.EMPTIED: "its task is being emptied, within the move budget",
}


def move_causes(
    problem: PlacementProblem, policy: Policy, outcome: StageOutcome, task_of: TaskOf
) -> npt.NDArray[np.int8]:
    """Return the cause of each partition's move, in rank order; NONE if the partition stays or is new. The
    most urgent of several causes is returned."""
    causes = np.zeros(problem.count, np.int8)
    moved = np.flatnonzero((problem.home >= 0) & (task_of != problem.home))
    if policy.mode is PlanMode.FULL:
        causes[moved] = MoveCause.FULL
        return causes
    home = problem.home[moved]
    loads = carried(problem.sizes, problem.home, problem.homes)
    counts = np.bincount(problem.home[problem.home >= 0], minlength=problem.homes)
    with_offender = np.zeros(problem.homes, dtype=bool)
    with_offender[problem.home[problem.offending & (problem.home >= 0)]] = True
    held = np.bincount(task_of[task_of >= 0], minlength=problem.homes)
    causes[moved] = np.select(
        [
            ~outcome.alive[home] & (held[home] > 0),
            ~outcome.alive[home],
            with_offender[home],
            ~problem.per_task.allows(counts[home]),
            (loads[home] > problem.usable).any(axis=1),
            (loads[home] > outcome.target).any(axis=1),
        ],
        [
            MoveCause.EMPTIED,
            MoveCause.DRAINED,
            MoveCause.ISOLATED,
            MoveCause.CROWDED,
            MoveCause.OVERLOADED,
            MoveCause.LEVELLED,
        ],
        MoveCause.MAKES_ROOM,
    )
    return causes


def move_sentence(
    plan: PlacementAnswer, capacity: TaskCapacity, position: int, labels: Sequence[object]
) -> str:
    """Return a sentence with the reason why a partition moves.

    The sentence contains the loads of its old and its new task before and after the move, in percent of
    usable capacity.
    """
    changes = ", ".join(
        f"task {labels[task]} {_percent(plan.loads_before[task], capacity)} -> "
        f"{_percent(plan.loads[task], capacity)}"
        for task in (int(plan.current[position]), int(plan.task_of[position]))
    )
    return f"{_TEXTS[MoveCause(int(plan.move_causes[position]))]} (of usable capacity: {changes})"


def reasons(
    problem: PlacementProblem,
    capacity: TaskCapacity,
    policy: Policy,
    outcome: StageOutcome,
    plan: PlacementAnswer,
) -> list[str]:
    """Return sentences about the number of tasks, the quality of the plan, and notes for the operator."""
    return [
        outcome.why[:1].upper() + outcome.why[1:],
        *_demands(problem, capacity, outcome),
        _quality(outcome),
        *_limits(problem, policy, outcome, plan.tasks),
        *_remarks(problem, policy, outcome, plan),
    ]


def _demands(problem: PlacementProblem, capacity: TaskCapacity, outcome: StageOutcome) -> list[str]:
    sentences = []
    for dimension, room in enumerate(problem.usable.tolist()):
        shown = (rate_text, _message_rate)[dimension]
        total = int(problem.sizes[:, dimension].sum())
        sentences.append(
            f"{shown(total / UNITS)} in total, {total / room:.2f} times the usable capacity of a task "
            f"({shown(room / UNITS)}, {capacity.utilisation_percent} % of its capacity)"
        )
    own = int(problem.offending.sum())
    if own:
        sentences.append(
            f"{counted(own, 'offending partition')} with more load than the usable capacity of a task"
        )
    needed, at_most = problem.per_task.bound(problem.count), problem.per_task.partitions
    if needed >= outcome.task_bound > 1:
        sentences.append(
            f"{counted(problem.count, 'partition')} at {at_most} per task: {counted(needed, 'task')}"
        )
    return sentences


def _remarks(
    problem: PlacementProblem, policy: Policy, outcome: StageOutcome, plan: PlacementAnswer
) -> list[str]:
    found = []
    if _is_too_little_to_gain(problem, policy, outcome, plan):
        found.append(
            "loads of tasks are not balanced: the fullest task would be relieved by less than "
            f"{100 * policy.least_gain:g} % of usable capacity"
        )
    if plan.moves_left:
        share = 100 * (policy.move_budget or 0.0)
        left = counted(plan.moves_left, "move")
        found.append(f"{left} left to the next plan: a plan may move {share:g} % of all bytes")
    shared = [task for task in plan.overloaded if int((plan.task_of == task).sum()) > 1]
    most = problem.limits.max_tasks
    if shared and most is not None and plan.tasks >= most and plan.tasks < outcome.required:
        found.append(f"{counted(len(shared), 'overloaded task')}: max_tasks allows only {most}")
    elif shared and plan.tasks < outcome.required:
        found.append(
            f"{counted(len(shared), 'overloaded task')}: tasks are added once the load has needed them in "
            f"each of the last {counted(policy.settling, 'observation')}"
        )
    elif shared:
        found.append(
            f"{counted(len(shared), 'overloaded task')} not relieved: within the band of "
            f"{100 * policy.overload_band:g} %, not overloaded in each of the last "
            f"{counted(policy.settling, 'observation')}, "
            "or beyond the budget"
        )
    if plan.unplaced:
        found.append(f"{counted(len(plan.unplaced), 'partition')} without a task: the limits leave no room")
    if plan.estimated:
        found.append(f"{counted(len(plan.estimated), 'load')} estimated from the topic's mean")
    if plan.defaulted:
        found.append(f"{counted(len(plan.defaulted), 'load')} unknown, the default is assumed")
    return found


def _is_too_little_to_gain(
    problem: PlacementProblem, policy: Policy, outcome: StageOutcome, plan: PlacementAnswer
) -> bool:
    """Return whether a rebalance moves nothing because the gain would be too small."""
    is_asked = policy.mode is PlanMode.INCREMENTAL and policy.rebalance and policy.least_gain > 0
    is_level = plan.max_load <= plan.max_load_lower_bound * (1 + policy.tolerance)
    return (
        is_asked
        and not is_level
        and not plan.moved_partitions
        and bool((outcome.target == problem.usable).all())
    )


def _percent(loads: npt.NDArray[np.float64], capacity: TaskCapacity) -> str:
    """Return a task's load in percent of its capacity for bytes or messages, whichever is higher."""
    share = float(loads[0]) / capacity.usable_bytes_per_second
    if capacity.usable_messages_per_second:
        share = max(share, float(loads[1]) / capacity.usable_messages_per_second)
    return f"{100 * share:.1f} %"


def _quality(outcome: StageOutcome) -> str:
    if outcome.required <= outcome.task_bound:
        fewest = counted(outcome.required, "task")
        return f"fewer than {fewest} cannot carry the load (proven by the lower bound)"
    return (
        f"the best placement found needs {counted(outcome.required, 'task')}, "
        f"the bound is {outcome.task_bound}"
    )


def _limits(problem: PlacementProblem, policy: Policy, outcome: StageOutcome, tasks: int) -> list[str]:
    limits = problem.limits
    if limits.max_tasks is not None and tasks == limits.max_tasks < outcome.required:
        return [f"max_tasks {limits.max_tasks} binds: {counted(outcome.required, 'task')} required"]
    if tasks > outcome.required and tasks <= limits.min_tasks and policy.keep_reason:
        return [policy.keep_reason]
    if tasks > outcome.required and tasks <= limits.min_tasks:
        return [
            f"min_tasks requires at least {counted(limits.min_tasks, 'task')}, the load {outcome.required}"
        ]
    if limits.min_tasks > tasks:
        return [f"min_tasks {limits.min_tasks} is not met with {counted(problem.count, 'partition')}"]
    return []


def _message_rate(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1}f} messages/s"
