"""Queries of hourly loads summed over the partitions of some topics.

A response has one row for each hour, whatever the number of partitions. Conventions as in `pinot.queries`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.load import LoadSums
from pinot.client import PinotClient, Row, Value
from pinot.partitions.pages import Grain, bounds
from pinot.partitions.rollups import HOUR_MS
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

TOPICS_AT_ONCE: Final = 500
"""Maximum number of topics in one query, because the query names each topic."""
_NO_LIMIT: Final = 10**18
_DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """Usable capacity of a task in bytes and messages per second.

    `messages`: None if unlimited. `half`: load above which two partitions do not fit into a task.
    """

    bytes: int
    messages: int | None
    half: float


_LOADS: Final = {
    Grain.HOURS: ("mean_bytes_per_second", "mean_messages_per_second"),
    Grain.SAMPLES: ("inflow_bytes_per_second", "messages_in_per_second"),
}
_PARTITIONS: Final = {
    Grain.HOURS: "count(*)",
    Grain.SAMPLES: "distinctcount(concat(topic, cast(kafka_partition as string), '/'))",
}
_HOUR: Final = {Grain.HOURS: "hour_ms", Grain.SAMPLES: f"floor(time_ms / {HOUR_MS})"}
_UNIT_MS: Final = {Grain.HOURS: 1, Grain.SAMPLES: HOUR_MS}


def hourly_sums(
    client: PinotClient, cluster: str, when: TimeRange, topics: Collection[str], room: TaskRoom
) -> dict[int, LoadSums]:
    """Map each hour (epoch ms) to the load sums of the topics.

    The sums come from the rollups. Hours of the last day without a rollup come from the samples: the mean of
    all samples times the number of partitions. If there are no rollups at all, earlier days are also computed
    from samples, until a day has no samples.
    """
    found = _sums(client, cluster, when, topics, room, Grain.HOURS)
    for day in _days(when):
        missing = [hour for hour in range(day.since_ms, day.until_ms, HOUR_MS) if hour not in found]
        if not missing:
            return found
        span = TimeRange(min(missing), max(missing) + HOUR_MS)
        sampled = _sums(client, cluster, span, topics, room, Grain.SAMPLES)
        is_rolled_up = bool(found.keys() - sampled.keys())
        found = {**sampled, **found}
        if is_rolled_up or not sampled:
            return found
    return found


def _days(when: TimeRange) -> Iterator[TimeRange]:
    """Divide the range into days, and yield them, the last day first."""
    until = when.until_ms
    while until > when.since_ms:
        since = max(until - _DAY_MS, when.since_ms)
        yield TimeRange(since, until)
        until = since


def _sums(
    client: PinotClient, cluster: str, when: TimeRange, topics: Collection[str], room: TaskRoom, grain: Grain
) -> dict[int, LoadSums]:
    found: dict[int, LoadSums] = {}
    ordered = sorted(topics)
    for first in range(0, len(ordered), TOPICS_AT_ONCE):
        rows = _rows(client, cluster, when, ordered[first : first + TOPICS_AT_ONCE], room, grain)
        for hour, sums in rows.items():
            before = found.get(hour)
            found[hour] = sums if before is None else _added(before, sums)
    return found


def _added(sums: LoadSums, other: LoadSums) -> LoadSums:
    return LoadSums(*map(operator.add, sums, other))


@checked_rows
def _rows(
    client: PinotClient, cluster: str, when: TimeRange, topics: Sequence[str], room: TaskRoom, grain: Grain
) -> dict[int, LoadSums]:
    size, messages = _LOADS[grain]
    is_alone = f"{size} > %(room)s or {messages} > %(messages)s"
    given: dict[str, Value] = {
        **bounds(cluster, when),
        "topics": list(topics),
        "room": room.bytes,
        "half": room.half,
        "messages": _NO_LIMIT if room.messages is None else room.messages,
    }
    answer = client.ask(
        f"select {_HOUR[grain]}, count(*), {_PARTITIONS[grain]}, "  # noqa: S608
        f"sum({size}), sum(case when {is_alone} then 1 else 0 end), "
        f"sum(case when {is_alone} then 0 else {size} end), "
        f"sum(case when {is_alone} then 0 when {messages} < 0 then 0 else {messages} end), "
        f"sum(case when {is_alone} then 0 when {size} > %(half)s then 1 else 0 end) "
        f"from {grain.table} {grain.where} and topic in (%(topics)s) "
        f"group by {_HOUR[grain]} limit {when.length_ms // HOUR_MS + 3}",  # more than the hours of the range
        given,
    )
    return {int(row[0]) * _UNIT_MS[grain]: _row(row, grain) for row in answer.rows}


def _row(row: Row, grain: Grain) -> LoadSums:
    _, rows, partitions, total, alone, rest, messages, heavy = row
    if not math.isfinite(total + rest + messages):
        raise ValueError(f"invalid sum of all loads: {total}")
    share = partitions / rows if grain is Grain.SAMPLES else 1.0
    return LoadSums(
        int(partitions),
        total * share,
        round(alone * share),
        rest * share,
        messages * share,
        round(heavy * share),
    )
