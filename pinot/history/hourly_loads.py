"""Queries for the hourly loads of partitions.

The latest two hours come from samples, which are more complete, and earlier hours from rollups. Conventions
as in `pinot.queries`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from mirror.model.topics import TopicPartition
from pinot.client import PinotClient, Row, Value
from pinot.history.points import HOUR_MS, LoadHour, merged, sums_by_hour
from pinot.partitions.pages import Grain, bounds
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

_MOST_ROWS: Final = 1_000_000
_SAMPLED_HOURS: Final = 2


@checked_rows
def partition_hours(
    client: PinotClient, cluster: str, when: TimeRange, places: Sequence[TopicPartition]
) -> dict[TopicPartition, list[LoadHour]]:
    """Return the hourly loads of each requested partition, oldest first; partitions without data are missing.

    Raises the errors of `PinotClient.ask`.
    """
    if not places:
        return {}
    given, chosen = bounds(cluster, when), _chosen(places)
    rolled = client.ask(
        "select topic, kafka_partition, hour_ms, hour_ms, mean_bytes_per_second, p95_bytes_per_second, "  # noqa: S608
        f"max_bytes_per_second from partitionMetricsHourly {Grain.HOURS.where} "
        f"and ({_condition(places)}) limit {_MOST_ROWS}",
        given | chosen,
    )
    newest = (when.until_ms - 1) // HOUR_MS * HOUR_MS
    given["since"] = max(when.since_ms, newest - (_SAMPLED_HOURS - 1) * HOUR_MS)
    hour = f"floor(time_ms / {HOUR_MS})"
    sampled = client.ask(
        f"select topic, kafka_partition, {hour}, min(time_ms), avg(inflow_bytes_per_second), "  # noqa: S608
        "percentile(inflow_bytes_per_second, 95), max(inflow_bytes_per_second) "
        f"from partitionMetrics {Grain.SAMPLES.where} and ({_condition(places)}) "
        f"group by topic, kafka_partition, {hour} limit {_MOST_ROWS}",
        given | chosen,
    )
    return merged(_hours(rolled.rows, 1), _hours(sampled.rows, HOUR_MS))


@checked_rows
def topics_hours(
    client: PinotClient, cluster: str, when: TimeRange, topics: Collection[str]
) -> list[LoadHour]:
    """Return the sum of hourly loads over all partitions of some topics, oldest first, from the rollups only.

    Raises the errors of `PinotClient.ask`.
    """
    if not topics:
        return []
    answer = client.ask(
        f"select hour_ms, sum(mean_bytes_per_second) from partitionMetricsHourly {Grain.HOURS.where} "  # noqa: S608
        f"and topic in (%(topics)s) group by hour_ms limit {_MOST_ROWS}",
        bounds(cluster, when) | {"topics": sorted(topics)},
    )
    return sums_by_hour((int(hour), float(total)) for hour, total in answer.rows)


def _condition(places: Sequence[TopicPartition]) -> str:
    """Return an SQL condition that selects topics, and its parameters."""
    return " or ".join(
        f"(topic = %(topic{at})s and kafka_partition = {int(place.partition)})"
        for at, place in enumerate(places)
    )


def _chosen(places: Sequence[TopicPartition]) -> dict[str, Value]:
    return {f"topic{at}": place.topic for at, place in enumerate(places)}


def _hours(rows: Sequence[Row], unit_ms: int) -> dict[TopicPartition, list[LoadHour]]:
    """Convert result rows to hourly loads, without impossible ones. `unit_ms`: unit of the hour column."""
    found: dict[TopicPartition, list[LoadHour]] = defaultdict(list)
    for topic, number, hour, begin, *loads in rows:
        mean, p95, most = map(float, loads)
        if math.isfinite(mean + p95 + most):
            place = TopicPartition(topic, int(number))
            found[place].append(LoadHour(int(hour) * unit_ms, int(begin), mean, p95, most))
    return found
