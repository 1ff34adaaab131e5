"""Computes how many tasks a group needed in past hours, from the sums of its loads. Pure.

The number is a lower bound, not the result of a plan. It takes microseconds, and needs only sums that Pinot
computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirror.model.capacity.advice import PastNeed
from mirror.model.load import LoadSums, PartitionLoad, TaskCapacity

_EXACT: Final = 1e-9
"""Relative error of floating-point sums up to which a sum counts as a whole number of tasks."""


class LeastTerms(NamedTuple):
    """Parameters of `least_tasks`, the lower bound on the tasks that past hours needed.

    `default`: load assumed for partitions without a known load. `planned`: number of partitions.
    `most_partitions`: maximum number of partitions of a task; None: no limit.
    """

    planned: int
    capacity: TaskCapacity
    default: PartitionLoad
    most_partitions: int | None = None


def sums_of(loads: Sequence[PartitionLoad], capacity: TaskCapacity) -> LoadSums:
    """Return the sums of an hour's partition loads from which `least_tasks` computes the bound."""
    room, messages = capacity.usable_bytes_per_second, capacity.usable_messages_per_second
    rest = [load for load in loads if not _is_alone(load, capacity)]
    return LoadSums(
        len(loads),
        sum(load.bytes_per_second for load in loads),
        len(loads) - len(rest),
        sum(load.bytes_per_second for load in rest),
        0.0 if messages is None else sum(load.messages_per_second or 0.0 for load in rest),
        sum(load.bytes_per_second > half_of(room) for load in rest),
    )


def least_tasks(sums: LoadSums, terms: LeastTerms) -> int:
    """Return a lower bound on the tasks that an hour needed, at least 1.

    The bound is the largest of three numbers: the sum of the loads divided by the usable capacity, the number
    of partitions larger than half of the usable capacity, and the number of partitions divided by the limit
    per task. A partition that exceeds the usable capacity adds a task.
    """
    capacity, default = terms.capacity, terms.default
    unknown = max(terms.planned - sums.partitions, 0)
    own, rest = sums.alone, 0
    room, messages = capacity.usable_bytes_per_second, capacity.usable_messages_per_second
    if _is_alone(default, capacity):
        own += unknown
    else:
        rest = unknown
    heavy = sums.heavy + (rest if default.bytes_per_second > half_of(room) else 0)
    bounds = [_tasks(sums.rest_bytes + rest * default.bytes_per_second, room), heavy]
    if messages is not None:
        bounds.append(_tasks(sums.rest_messages + rest * (default.messages_per_second or 0.0), messages))
    if terms.most_partitions is not None:
        bounds.append(-(-(sums.partitions - sums.alone + rest) // terms.most_partitions))
    return max(own + max(bounds), 1)


def half_of(room: int) -> float:
    """Return half of a task's capacity: two partitions above this load (bytes/s) do not fit into one task.

    `room`: usable capacity of the task.
    """
    return room / 2 * (1 + _EXACT)


def _is_alone(load: PartitionLoad, capacity: TaskCapacity) -> bool:
    messages = capacity.usable_messages_per_second
    is_chatty = messages is not None and (load.messages_per_second or 0.0) > messages
    return load.bytes_per_second > capacity.usable_bytes_per_second or is_chatty


def _tasks(total: float, room: int) -> int:
    return math.ceil(total / room * (1 - _EXACT)) if room else 0


def past_need(needs: Sequence[Mapping[int, int]], held: int, since_ms: int) -> PastNeed | None:
    """Return the task-hours that past hours needed; None if they are unknown.

    `needs`: for each group, needed tasks by start of the hour (epoch ms). Hours that are missing for any
    group are ignored. `held`: current tasks of all groups. `since_ms`: earlier hours are ignored. Returns
    None if no hour is known for every group, or without groups.
    """
    if not needs:
        return None
    hours = {hour for hour in set(needs[0]).intersection(*needs[1:]) if hour >= since_ms}
    if not hours:
        return None
    needed = [sum(need[hour] for need in needs) for hour in hours]
    return PastNeed(len(hours), held * len(hours), max(needed) * len(hours), sum(needed))
