"""Tasks that the next hours need according to a forecast from recorded loads, and tasks that past hours
needed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from assigner.forecast.outlook import Loads, Outlook
from assigner.planner import plan
from assigner.problem.limits import Limits
from assigner.problem.loads import Rates, resolve
from assigner.problem.problem import PlanMode, in_units, usable_units
from assigner.search.quick import quick_tasks
from assigner.what_if.document import Fallback
from assigner.what_if.growth import check_growth
from mirror.model.load import HIGHEST_RATE, PartitionLoad, TaskLimits
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class ComingHour:
    """Forecast of one hour: bytes/s of all partitions together, and the required tasks.

    `tasks`: for the middle of the forecast. `most_tasks`: for its high end.
    """

    hour_ms: int
    low_bytes_per_second: float
    bytes_per_second: float
    high_bytes_per_second: float
    tasks: int
    most_tasks: int


def coming_hours(found: Outlook, growth: float, limits: TaskLimits, how: Fallback) -> list[ComingHour]:
    """Return the forecast hour by hour, each placed from scratch. `growth`: factor on every load.

    Raises InvalidRequest as `check_growth` does.
    """
    check_growth(growth)

    def tasks(number: int, total: float) -> int:
        loads = found.loads(number, total)
        return needed_tasks(loads, loads, limits, how)

    return _hours(found, growth, tasks)


def quick_hours(found: Outlook, limits: TaskLimits, how: Fallback) -> list[ComingHour]:
    """Return the forecast hour by hour, with the task count of a simple packing, within milliseconds.

    Without a limit of messages, the count is never lower than that of the search, and rarely higher. Raises
    InvalidRequest for an invalid capacity.
    """
    usable, per_task = usable_units(how.capacity), Limits(limits.max_partitions_per_task)
    shape: Loads | None = None
    rates = np.empty((0, 2))

    def tasks(number: int, total: float) -> int:
        nonlocal shape, rates
        if shape is not found.shapes[number]:
            shape = found.shapes[number]
            rates = _rates(shape, how.default)
        before = float(rates[:, 0].sum())
        scaled = np.minimum(rates * (total / before if before else 1.0), HIGHEST_RATE)
        return quick_tasks(in_units(scaled[:, : len(usable)]), usable, per_task)

    return _hours(found, 1.0, tasks)


def _rates(loads: Loads, default: PartitionLoad) -> Rates:
    """Return bytes and messages per second of each partition: float64[n, 2]."""
    messages = default.messages_per_second or 0.0
    return np.array(
        [
            (
                load.bytes_per_second,
                messages if load.messages_per_second is None else load.messages_per_second,
            )
            for load in loads.values()
        ]
    ).reshape(-1, 2)


def _hours(found: Outlook, growth: float, tasks: Callable[[int, float], int]) -> list[ComingHour]:
    rows = []
    for number, hour_ms in enumerate(found.hours_ms):
        low, middle, high = (float(part[number]) * growth for part in found.totals)
        expected, most = (tasks(number, total) for total in (middle, high))
        rows.append(ComingHour(hour_ms, low, middle, high, expected, max(expected, most)))
    return rows


def needed_tasks(
    partitions: Collection[TopicPartition],
    loads: Mapping[TopicPartition, PartitionLoad],
    limits: TaskLimits,
    how: Fallback,
) -> int:
    """Return the tasks needed for these partitions, placed from scratch. `how`: load of partitions whose load
    is unknown."""
    demand = resolve(sorted(partitions), loads, {}, how.default)
    return plan(demand, how.capacity, limits, replace(how.policy, mode=PlanMode.FULL)).required_tasks
