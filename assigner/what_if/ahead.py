"""Tasks needed in the next hours by a forecast from recorded loads, and tasks that past hours needed.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from assigner.forecast.outlook import Outlook
from assigner.planner import plan
from assigner.problem.loads import resolve
from assigner.problem.problem import PlanMode
from assigner.what_if.document import Fallback
from assigner.what_if.growth import check_growth
from mirror.model.load import PartitionLoad, TaskLimits
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
    rows = []
    for number, hour_ms in enumerate(found.hours_ms):
        low, middle, high = (float(part[number]) * growth for part in found.totals)
        tasks, most = (_tasks(found, number, total, limits, how) for total in (middle, high))
        rows.append(ComingHour(hour_ms, low, middle, high, tasks, max(tasks, most)))
    return rows


def _tasks(found: Outlook, number: int, total: float, limits: TaskLimits, how: Fallback) -> int:
    loads = found.loads(number, total)
    return needed_tasks(loads, loads, limits, how)


def needed_tasks(
    partitions: Collection[TopicPartition],
    loads: Mapping[TopicPartition, PartitionLoad],
    limits: TaskLimits,
    how: Fallback,
) -> int:
    """Return the tasks needed for these partitions, placed from scratch. `how`: load of those without one."""
    demand = resolve(sorted(partitions), loads, {}, how.default)
    return plan(demand, how.capacity, limits, replace(how.policy, mode=PlanMode.FULL)).required_tasks
