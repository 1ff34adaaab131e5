"""Computes how many tasks past hours needed and the next hours will need, from recorded loads. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.forecast.outlook import Outlook
from assigner.planner import plan
from assigner.problem.limits import Limits
from assigner.problem.loads import resolve
from assigner.problem.policy import PlanMode
from assigner.problem.problem import Ints, in_units, usable_units
from assigner.search.greedy import best_fit
from assigner.what_if.document import Fallback
from assigner.what_if.replay import check_growth
from mirror.model.load import HIGHEST_RATE, PartitionLoad, TaskLimits
from mirror.model.topics import TopicPartition


def quick_tasks(sizes: Ints, usable: Ints, limits: Limits) -> list[int]:
    """Return the number of tasks that each hour needs with a simple packing. A partition above `usable` gets
    its own task.

    `sizes`: int64[hours, n, D] in any order, `usable`: int64[D]. At least 1.
    """
    is_alone = np.asarray((sizes > usable).any(axis=2))
    shares = np.where(is_alone, -1.0, (sizes / usable).sum(axis=2))
    order = np.argsort(-shares, axis=1, kind="stable")
    rest = np.take_along_axis(np.where(is_alone[:, :, None], 0, sizes), order[:, :, None], axis=1)
    own = is_alone.sum(axis=1)
    sums = (-(-rest.sum(axis=1) // usable)).max(axis=1)
    most = _most_tasks(rest, sizes.shape[1] - own, usable, limits)
    found = []
    for hour, alone in enumerate(own.tolist()):
        count = sizes.shape[1] - alone
        least = max(1, limits.bound(count), int(sums[hour])) if count else 0
        if least < most[hour]:
            least = _packed(rest[hour, :count], usable, limits)
        found.append(max(alone + least, 1))
    return found


def _most_tasks(sizes: Ints, counts: Ints, usable: Ints, limits: Limits) -> Ints:
    """Return an upper bound on the number of tasks that each hour needs.

    The bound holds for every packing that opens a task only if necessary. `sizes`: int64[hours, n, D] in the
    order of packing; only the first `counts` of each hour are packed.
    """
    before = np.cumsum(sizes, axis=1) - sizes
    places = np.arange(sizes.shape[1])
    open_tasks = (before // (usable - sizes + 1)).sum(axis=2)
    if limits.partitions is not None:
        open_tasks = open_tasks + places // limits.partitions
    opened = np.minimum(open_tasks, places) + 1
    return np.asarray(np.where(places < counts[:, None], opened, 0).max(axis=1, initial=0))


def _packed(sizes: Ints, usable: Ints, limits: Limits) -> int:
    if len(usable) == 1:
        return int(best_fit(sizes[:, 0], int(usable[0]), len(sizes), limits).max()) + 1
    return _first_fit_count(sizes, usable, limits)


def _first_fit_count(sizes: Ints, usable: Ints, limits: Limits) -> int:
    """Return the number of tasks that first-fit packing in two dimensions needs."""
    loads, counts = np.zeros_like(sizes), np.zeros(len(sizes), np.int64)
    used = 0
    for size in sizes:
        fits = (loads[:used] + size <= usable).all(axis=1) & limits.admits(counts[:used])
        task = int(fits.argmax()) if fits.any() else used
        used = max(used, task + 1)
        loads[task] += size
        counts[task] += 1
    return used


_CELLS: Final = 50_000
"""Maximum number of partitions times hours to pack in one pass, to limit the memory."""


@dataclass(frozen=True, slots=True)
class ComingHour:
    """Forecast of one hour: total bytes/s of all partitions, and the number of tasks that it requires.

    `tasks`: number of tasks for the middle of the forecast. `most_tasks`: number of tasks for the upper bound
    of the forecast.
    """

    hour_ms: int
    low_bytes_per_second: float
    bytes_per_second: float
    high_bytes_per_second: float
    tasks: int
    most_tasks: int


def coming_hours(found: Outlook, growth: float, limits: TaskLimits, how: Fallback) -> list[ComingHour]:
    """Return load forecast and required tasks of each coming hour. `growth`: factor on every load.

    Raises InvalidRequest if `check_growth` rejects `growth`.
    """
    check_growth(growth)

    def tasks(number: int, total: float) -> int:
        loads = found.loads(number, total * growth)
        return needed_tasks(loads, loads, limits, how)

    totals = zip(found.totals.middle.tolist(), found.totals.high.tolist(), strict=True)
    needed = [(tasks(number, middle), tasks(number, high)) for number, (middle, high) in enumerate(totals)]
    return _hours(found, growth, needed)


def quick_hours(found: Outlook, limits: TaskLimits, how: Fallback) -> list[ComingHour]:
    """Return load forecast and, within milliseconds, a quick estimate of the required tasks of each coming
    hour.

    Without a limit of messages, the count is never lower than the count that the search finds, and rarely
    higher. Raises InvalidRequest for an invalid capacity.
    """
    usable, per_task = usable_units(how.capacity), Limits(limits.max_partitions_per_task)
    totals, default = np.array([found.totals.middle, found.totals.high]), how.default.messages_per_second
    together = max(1, _CELLS // max(len(found.places), 1))
    needed: list[tuple[int, int]] = []
    for first in range(0, len(found.shapes), together):
        hours = np.nan_to_num(found.shapes[first : first + together], nan=default or 0.0)
        before = hours[:, :, 0].sum(axis=1)
        wanted = totals[:, first : first + together]
        factors = np.divide(wanted, before, out=np.ones_like(wanted), where=before > 0)
        scaled = np.minimum(hours[None, :, :, : len(usable)] * factors[:, :, None, None], HIGHEST_RATE)
        middle, high = (quick_tasks(in_units(loads), usable, per_task) for loads in scaled)
        needed += zip(middle, high, strict=True)
    return _hours(found, 1.0, needed)


def _hours(found: Outlook, growth: float, needed: Sequence[tuple[int, int]]) -> list[ComingHour]:
    """Combine load forecasts with required tasks. `needed`: tasks for the middle and the upper bound of each
    hour."""
    rows = []
    for number, (hour_ms, (tasks, most)) in enumerate(zip(found.hours_ms, needed, strict=True)):
        low, middle, high = (float(part[number]) * growth for part in found.totals)
        rows.append(ComingHour(hour_ms, low, middle, high, tasks, max(tasks, most)))
    return rows


def needed_tasks(
    partitions: Collection[TopicPartition],
    loads: Mapping[TopicPartition, PartitionLoad],
    limits: TaskLimits,
    how: Fallback,
) -> int:
    """Return the number of tasks that the partitions need if all are placed from scratch.

    `how`: load of partitions whose load is unknown.
    """
    demand = resolve(sorted(partitions), loads, {}, how.default)
    return plan(demand, how.capacity, limits, replace(how.policy, mode=PlanMode.FULL)).required_tasks
