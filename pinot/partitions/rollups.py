"""Finds hours whose rollup is missing or incomplete, and computes the rows of rollups.

Pinot computes each hour from its samples, which are free of duplicates. Counts and percentiles are therefore
exact, and no state is kept between two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pinot.client import PinotClient
from pinot.partitions.pages import PAGE_PARTITIONS, Grain, bounds, pages
from pinot.rows import checked_rows
from pinot.tables import UNKNOWN, LogGrowth, PartitionMetricHourly, SampledPartition
from pinot.time_range import TimeRange

HOUR_MS: Final = 3_600_000

_NEWEST_DATACENTER: Final = "lastwithtime(datacenter, time_ms, 'string')"
"""The settings may rename a datacenter within the hour, but the key of a rollup does not contain it."""
_COLUMNS: Final = (
    "lastwithtime(broker, time_ms, 'long'), count(*), avg(inflow_bytes_per_second), "
    "percentile(inflow_bytes_per_second, 95), "
    "max(inflow_bytes_per_second), avg(bytes_in_per_second), avg(messages_in_per_second), "
    "percentile(messages_in_per_second, 95), max(messages_in_per_second), min(messages_in_per_second), "
    "avg(bytes_out_per_second), min(bytes_out_per_second), max(size_bytes), sum(growth_bytes), "
    "sum(growth_ms), sum(shrunk)"
)


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of samples of a cluster, which starts at `hour_ms` (epoch ms)."""

    cluster: str
    hour_ms: int


@checked_rows
def sampled_hours(client: PinotClient, when: TimeRange) -> dict[Hour, int]:
    """Return the number of samples in each hour of the range. The first hour may be incomplete."""
    answer = client.ask(
        "select cluster, datetrunc('HOUR', time_ms), count(*) from partitionMetrics "
        "where time_ms >= %(since)s and time_ms < %(until)s "
        "group by cluster, datetrunc('HOUR', time_ms) limit 100000",
        {"since": when.since_ms, "until": when.until_ms},
    )
    return {Hour(cluster, int(hour)): int(count) for cluster, hour, count in answer.rows}


@checked_rows
def rolled_up_hours(client: PinotClient, when: TimeRange) -> dict[Hour, int]:
    """Return, for each hour, the number of samples that its rollup includes."""
    answer = client.ask(
        "select cluster, hour_ms, sum(samples) from partitionMetricsHourly "
        "where hour_ms >= %(since)s and hour_ms < %(until)s group by cluster, hour_ms limit 100000",
        {"since": when.since_ms, "until": when.until_ms},
    )
    return {Hour(cluster, int(hour)): int(count) for cluster, hour, count in answer.rows}


def hour_pages(
    client: PinotClient, hour: Hour, *, page_partitions: int = PAGE_PARTITIONS
) -> Iterator[list[PartitionMetricHourly]]:
    """Yield the rollup of one hour, about `page_partitions` rows at a time."""
    given = bounds(hour.cluster, TimeRange(hour.hour_ms, hour.hour_ms + HOUR_MS))
    grain = Grain.SAMPLES
    for page in pages(client, grain, given, page_partitions=page_partitions):
        answer = client.ask(
            f"select {_NEWEST_DATACENTER}, topic, kafka_partition, {_COLUMNS} "  # noqa: S608
            f"from {grain.table} {grain.where} {page.condition} "
            f"group by topic, kafka_partition limit {2 * page_partitions}",
            given | page.parameters,
        )
        yield _all_hourly(hour, answer.rows)


@checked_rows
def _all_hourly(hour: Hour, rows: list[list[Any]]) -> list[PartitionMetricHourly]:
    return [_hourly(hour, row) for row in rows]


def _hourly(hour: Hour, row: list[Any]) -> PartitionMetricHourly:
    messages_known = row[12] >= 0
    return PartitionMetricHourly(
        hour_ms=hour.hour_ms,
        partition=SampledPartition(row[0], hour.cluster, row[1], int(row[2]), int(row[3])),
        samples=int(row[4]),
        mean_bytes_per_second=float(row[5]),
        p95_bytes_per_second=float(row[6]),
        max_bytes_per_second=float(row[7]),
        sampled_bytes_per_second=float(row[8]),
        mean_messages_per_second=float(row[9]) if messages_known else UNKNOWN,
        p95_messages_per_second=float(row[10]) if messages_known else UNKNOWN,
        max_messages_per_second=float(row[11]) if messages_known else UNKNOWN,
        mean_bytes_out_per_second=float(row[13]) if row[14] >= 0 else UNKNOWN,
        size_bytes=float(row[15]),
        growth=LogGrowth(float(row[16]), int(row[17])),
        shrunk=int(row[18]),
    )
