"""Replays a recorded day: plans the tasks and moves of each hour.

Every hour is planned from the placement of the previous hour, as the service would, with the earlier hours as
recent observations. The module does no I/O: a port supplies the rows, and the caller gets the hours.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from assigner.answer.placement_answer import PlacementAnswer
from assigner.forecast.outlook import HOUR_MS
from assigner.planner import plan
from assigner.problem.loads import resolve, scaled
from assigner.problem.policy import PlanMode
from assigner.what_if.document import Fallback
from assigner.what_if.rows import rows
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.bounds import LARGEST_PARTITION
from mirror.model.load import HIGHEST_RATE, PartitionLoad, TaskLimits
from mirror.model.topics import TopicPartition

_COLUMNS: Final = ("hour_ms", "topic", "partition", "bytes_per_second")
_LAST_MS: Final = 10**14
"""Latest supported hour (in the year 5138), in epoch milliseconds.

The limit ensures that all hours, including forecast hours, can be formatted.
"""

Hourly = Mapping[int, Mapping[TopicPartition, PartitionLoad]]
"""Partition loads by the start of the hour in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class ReplayHour:
    """Plan of one replayed hour. `required_tasks`: number of tasks that the load needs. `tasks`: number of
    tasks in the plan, after hysteresis."""

    hour_ms: int
    bytes_per_second: float
    required_tasks: int
    tasks: int
    max_over_mean: float
    overloaded_tasks: int
    moved_bytes_per_second: float


def replay(
    history: Hourly, growth: float, limits: TaskLimits, how: Fallback, patience: int = 24
) -> list[ReplayHour]:
    """Plan every recorded hour, starting from the placement of the hour before. `growth`: factor on every
    load. `patience`: number of earlier hours considered.

    Raises InvalidRequest if there is no hour, or if `check_growth` rejects `growth`.
    """
    check_growth(growth)
    if not history:
        raise InvalidRequest("the history is empty")
    result = []
    present: dict[TopicPartition, int] = {}
    seen: deque[Mapping[TopicPartition, PartitionLoad]] = deque(maxlen=patience)
    for hour in sorted(history):
        loads = {partition: scaled(load, growth) for partition, load in history[hour].items()}
        answer = _plan_hour(loads, present, limits, how, tuple(seen))
        present = _placement(answer)
        seen.append(loads)
        result.append(_summary(hour, answer))
    return result


def _plan_hour(
    loads: Mapping[TopicPartition, PartitionLoad],
    present: Mapping[TopicPartition, int],
    limits: TaskLimits,
    how: Fallback,
    recent: Sequence[Mapping[TopicPartition, PartitionLoad]],
) -> PlacementAnswer:
    partitions = sorted(loads)
    demand = resolve(partitions, loads, {}, how.default, recent)
    current = np.array([present.get(partition, -1) for partition in partitions], np.int32)
    return plan(demand, how.capacity, limits, replace(how.policy, mode=PlanMode.INCREMENTAL), current)


def _placement(answer: PlacementAnswer) -> dict[TopicPartition, int]:
    """Return the task of each partition, renumbered without gaps, so that numbers of removed tasks do not
    accumulate."""
    numbers = np.cumsum(answer.alive) - 1
    return {
        partition: int(numbers[task])
        for partition, task in zip(answer.demand.partitions, answer.task_of.tolist(), strict=True)
        if task >= 0
    }


def _summary(hour_ms: int, answer: PlacementAnswer) -> ReplayHour:
    loads = answer.loads[answer.alive, 0]
    mean = float(loads.mean())
    return ReplayHour(
        hour_ms=hour_ms,
        bytes_per_second=float(loads.sum()),
        required_tasks=answer.required_tasks,
        tasks=answer.tasks,
        max_over_mean=float(loads.max()) / mean if mean else 1.0,
        overloaded_tasks=len(answer.overloaded),
        moved_bytes_per_second=answer.moved_bytes_per_second,
    )


def hours_from_csv(text: str) -> Hourly:
    """Parse recorded hourly loads from CSV.

    Columns: hour_ms, topic, partition, bytes_per_second and optionally messages_per_second; other columns are
    ignored. Raises InvalidRequest that names the line.
    """
    return _collect(rows(text, _COLUMNS))


def hours_from_json(text: str) -> Hourly:
    """Parse recorded hourly loads from a list of objects. Raises InvalidRequest that names the entry."""
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"not JSON: {error.msg} in line {error.lineno}") from error
    except (RecursionError, ValueError) as error:
        raise InvalidRequest(f"not JSON: {str(error)[:200]}") from error
    if not isinstance(entries, list):
        raise InvalidRequest("the history must be a list of objects", advice=f"keys: {', '.join(_COLUMNS)}")
    return _collect((f"entry {number}", row) for number, row in enumerate(entries))


def _whole(label: str, value: Any, highest: int) -> int:
    """Parse a field of the recorded hours as an integer, from a number or from the digits of a CSV field."""
    if isinstance(value, str):
        return bounds.digits(label, value.strip(), 0, highest)
    return bounds.integer(label, value, 0, highest)


def _rate(label: str, value: Any) -> float:
    if isinstance(value, str):
        return bounds.decimal(label, value.strip(), 0, HIGHEST_RATE)
    return bounds.number(label, value, 0, HIGHEST_RATE)


def _collect(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Hourly:
    hours: dict[int, dict[TopicPartition, PartitionLoad]] = {}
    for where, row in entries:
        try:
            hour = _whole("hour_ms", row["hour_ms"], _LAST_MS) // HOUR_MS * HOUR_MS
            topic = bounds.line("topic", row["topic"])
            partition = TopicPartition(topic, _whole("partition", row["partition"], LARGEST_PARTITION))
            messages = row.get("messages_per_second")
            load = PartitionLoad(
                _rate("bytes_per_second", row["bytes_per_second"]),
                None if messages in (None, "") else _rate("messages_per_second", messages),
            )
        except (InvalidRequest, KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f"invalid {where} of the history: {error}") from error
        if partition in hours.setdefault(hour, {}):
            raise InvalidRequest(f"{where} of the history repeats partition {partition} in the same hour")
        hours[hour][partition] = load
    return hours


_MOST: Final = 1_000.0


def check_growth(growth: float) -> None:
    """Raise InvalidRequest unless the load factor is above 0 and plausible.

    NaN and infinity are rejected.
    """
    if not 0 < growth <= _MOST:
        raise InvalidRequest(
            f"the growth is {growth}; it must be above 0 and at most {_MOST:g}", advice="1.3 means 30 % more"
        )
