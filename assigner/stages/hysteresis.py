"""Decides when load changes the number of tasks, and which overloads are relieved.

Tasks are added if the load needed them in each of the last few observations (`settling`), so that a spike
adds no tasks. Tasks are removed only if the remaining tasks would have kept the headroom free in every
observation, so that observations of a day keep the tasks that the day needs. Tasks are added or removed in
one step. While the load grows, tasks are added for the latest observation. While the load falls, tasks are
not removed until it stops falling. Between these two limits nothing changes: noise of +-p has no effect as
long as (1 - p) / (1 + p) is above 1 - headroom, which a headroom of 0.2 ensures for +-10 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.bounds.lower_bounds import task_bound
from assigner.problem.limits import Limits
from assigner.problem.policy import Policy
from assigner.problem.problem import Ints, PlacementProblem
from mirror.wording import counted

ENOUGH_KNOWN: Final = 0.5
"""Share of the partitions whose load must be known, at least by topic, before tasks are removed."""

_NOISE: Final = 0.1
_LARGE_FALL: Final = 1.15
"""Ratio of the tasks needed by an earlier observation to the tasks needed now.

Above this ratio, tasks are removed only after the earlier observation has expired.
"""


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Number of tasks in an incremental plan (`wanted`), with its reason (`why`). `needed`: tasks that the
    current load needs."""

    needed: int
    wanted: int
    why: str


def task_count(problem: PlacementProblem, policy: Policy) -> TaskCount:
    """Return the number of tasks of an incremental plan, before the limits on tasks apply."""
    observations = [*problem.recent, problem.sizes]
    room = problem.usable
    spared = np.maximum((room * (1 - policy.scale_in_headroom)).astype(np.int64), 1)
    limits = problem.per_task
    needed = needed_tasks(problem.sizes, room, limits)
    lasting = min(needed_tasks(sizes, room, limits) for sizes in observations[-policy.settling :])
    present = len(np.unique(problem.home[problem.home >= 0]))
    if lasting > present:
        wanted = max(lasting, needed) if _grows(observations[-policy.settling :]) else lasting
        return TaskCount(needed, wanted, f"the load needs {counted(wanted, 'task')}, current: {present}")
    if problem.measured < ENOUGH_KNOWN:
        why = f"{counted(present, 'task')} kept: too few loads are known to remove any"
        return TaskCount(needed, present, why)
    keep = max(_clipped_need(sizes, room, spared, limits) for sizes in observations)
    if keep < present and not policy.rebalance:
        settled = _clipped_need(problem.sizes, room, spared, limits)
        if _falls(observations[-policy.settling :]) or (
            keep > settled * _LARGE_FALL and _only_falls(observations)
        ):
            why = f"the load is falling: {counted(present, 'task')} kept, to remove the surplus in one step"
            return TaskCount(needed, present, why)
    if keep < present:
        share = round(100 * policy.scale_in_headroom)
        why = f"{keep} of {counted(present, 'task')} suffice with {share} % of each left free"
        return TaskCount(needed, keep, why)
    if needed > present:
        now = f"the load needs {counted(needed, 'task')} now"
        why = f"{now}, but not yet in {counted(policy.settling, 'observation')} in a row"
        return TaskCount(needed, present, why)
    why = f"current: {counted(present, 'task')}, the load needs {needed}"
    if needed < present:
        spared_need = _clipped_need(problem.sizes, room, spared, limits)
        why = f"{why}; they are kept because {_holds(keep, spared_need, len(problem.recent), policy)}"
    return TaskCount(needed, present, why)


def _grows(newest: Sequence[Ints]) -> bool:
    """Return whether the total load has risen with each recent observation."""
    totals = [int(sizes.sum()) for sizes in newest]
    return len(totals) > 1 and all(before < after for before, after in pairwise(totals))


def _falls(newest: Sequence[Ints]) -> bool:
    """Return whether the total load is below its recent maximum by more than noise."""
    totals = [int(sizes.sum()) for sizes in newest]
    return totals[-1] < (1 - _NOISE) * max(totals)


def _only_falls(observations: Sequence[Ints]) -> bool:
    """Return whether the total load has only fallen: no observation exceeds an earlier one by more than
    noise."""
    lowest = float("inf")
    for sizes in observations:
        total = int(sizes.sum())
        if total > lowest * (1 + _NOISE):
            return False
        lowest = min(lowest, total)
    return True


def _holds(keep: int, present_need: int, observations: int, policy: Policy) -> str:
    """Return the reason for keeping tasks that the current load does not need.

    `keep`: tasks that all observations need with headroom. `present_need`: tasks that the current observation
    needs with headroom.
    """
    headroom = f"with {round(100 * policy.scale_in_headroom)} % of each left free"
    if present_need == keep:
        return f"it needs {keep} {headroom}"
    earlier = (
        "the earlier observation" if observations == 1 else f"one of the {observations} earlier observations"
    )
    return f"{earlier} of the last day needs {keep} {headroom}"


def needed_tasks(sizes: Ints, room: Ints, limits: Limits) -> int:
    """Return a lower bound on the number of tasks. A partition that exceeds the room needs its own task."""
    alone = (sizes > room).any(axis=1)
    rest = sizes[~alone]
    return max(int(alone.sum()) + (task_bound(rest, room, limits) if len(rest) else 0), 1)


def _clipped_need(sizes: Ints, room: Ints, spared: Ints, limits: Limits) -> int:
    """Return a lower bound on the number of tasks if each task keeps some capacity (headroom) free.

    A partition that fits only without headroom counts as one task.
    """
    alone = (sizes > room).any(axis=1)
    rest = np.minimum(sizes[~alone], spared)
    return max(int(alone.sum()) + (task_bound(rest, spared, limits) if len(rest) else 0), 1)


def lasting_overloads(problem: PlacementProblem, policy: Policy) -> npt.NDArray[np.bool_]:
    """Return which tasks exceeded the overload band in each of the last observations: bool[tasks]."""
    limit = problem.usable * (1 + policy.overload_band)
    overloaded = np.ones(problem.homes, dtype=bool)
    for sizes in [*problem.recent, problem.sizes][-policy.settling :]:
        overloaded &= (carried(sizes, problem.home, problem.homes) > limit).any(axis=1)
    return overloaded


def carried(sizes: Ints, task_of: npt.NDArray[np.int32], tasks: int) -> Ints:
    """Return the load in each task, int64[tasks, D], ignoring partitions without a task."""
    placed = np.flatnonzero(task_of >= 0)
    loads = np.zeros((tasks, sizes.shape[1]), np.int64)
    for dimension in range(sizes.shape[1]):
        np.add.at(loads[:, dimension], task_of[placed], sizes[placed, dimension])
    return loads
