"""Finds partitions that are too heavy for a task, since when they are, and a remedy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.model.load import HOT_SHARE
from mirror.model.topics import MOST_PARTITIONS, is_legal_topic
from pinot.client import PinotClient, Row, Value
from pinot.partitions.pages import MOST_TOPICS
from pinot.queries import MOST_GROUPS
from pinot.rows import checked_rows
from pinot.tables import Statistic
from pinot.time_range import TimeRange

SKEWED: Final = 2.0
"""Ratio of a partition's load to the mean load of the topic's other partitions.

Above this ratio, the remedy is a better key, because more partitions would not help.
"""

_TOPICS_AT_ONCE: Final = 100
"""Number of topics per query, small enough for Pinot's limit of groups."""
_LOADS: Final = {
    Statistic.MEAN: "avg(inflow_bytes_per_second)",
    Statistic.P95: "percentile(inflow_bytes_per_second, 95)",
    Statistic.MAX: "max(inflow_bytes_per_second)",
}
_WHERE: Final = "where cluster = %(cluster)s and time_ms >= %(since)s and time_ms < %(until)s"


class Remedy(StrEnum):
    """Remedy for an offending partition."""

    ADD_PARTITIONS = "add partitions: the topic's load is even but too high for its number of partitions"
    FIX_KEY = "fix the key: this partition carries far more than the topic's other partitions"


@dataclass(frozen=True, slots=True)
class OffendingRow:
    """A partition whose load takes a large share of a task's capacity.

    `share`: load over a task's usable capacity. `skew`: load over the mean of the topic's sampled partitions.
    `since_ms`: time of the last sample at or below the usable capacity. If all samples in the range exceed
    the capacity, `since_ms` is the time of the first sample. If the latest sample does not exceed the
    capacity, `since_ms` is None.
    """

    topic: str
    kafka_partition: int
    bytes_per_second: float
    share: float
    skew: float
    topic_partitions: int
    since_ms: int | None
    advice: Remedy


@checked_rows
def offending_partitions(
    client: PinotClient,
    cluster: str,
    when: TimeRange,
    usable_bytes_per_second: float,
    *,
    least_share: float = HOT_SHARE,
    statistic: Statistic = Statistic.P95,
    limit: int = 100,
) -> list[OffendingRow]:
    """Return the partitions whose load is at least `least_share` of a task's usable capacity, largest first.

    No statistic can exceed the largest sample, so only topics with a sufficiently large sample are queried.
    """
    given: dict[str, Value] = {"cluster": cluster, "since": when.since_ms, "until": when.until_ms}
    least = float(least_share * usable_bytes_per_second)
    topics = client.ask(
        f"select distinct topic from partitionMetrics {_WHERE} "  # noqa: S608
        f"and inflow_bytes_per_second >= %(least)s limit {MOST_TOPICS}",
        {**given, "least": least},
    ).rows
    given["usable"] = float(usable_bytes_per_second)
    names = sorted(row[0] for row in topics if is_legal_topic(row[0]))
    found: list[OffendingRow] = []
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        rows = client.ask(
            f"select topic, kafka_partition, {_LOADS[statistic]}, min(time_ms), max(time_ms), "  # noqa: S608
            "max(case when inflow_bytes_per_second <= %(usable)s then time_ms else 0 end) "
            f"from partitionMetrics {_WHERE} and topic in (%(topics)s) "
            f"group by topic, kafka_partition limit {MOST_GROUPS}",
            {**given, "topics": names[start : start + _TOPICS_AT_ONCE]},
        ).rows
        possible = [row for row in rows if row[1] < MOST_PARTITIONS]
        found += _offending(possible, least, usable_bytes_per_second)
    found.sort(key=lambda row: (-row.bytes_per_second, row.topic, row.kafka_partition))
    return found[:limit]


def _offending(rows: list[Row], least: float, usable: float) -> list[OffendingRow]:
    """Return the partitions with a load of at least `least`."""
    loads: dict[str, list[float]] = defaultdict(list)
    for topic, _, rate, *_ in rows:
        loads[topic].append(float(rate))
    return [_row(row, loads[row[0]], usable) for row in rows if row[2] >= least and row[1] < MOST_PARTITIONS]


def _since(oldest_ms: int, newest_ms: int, last_below_ms: int) -> int | None:
    if last_below_ms == newest_ms:
        return None
    return last_below_ms or oldest_ms


def _row(row: Row, of_topic: list[float], usable: float) -> OffendingRow:
    """Return the result for one partition. `of_topic`: loads of all partitions of its topic, including its
    own."""
    topic, number, rate, *times = row
    mean = sum(of_topic) / len(of_topic)
    others = (sum(of_topic) - rate) / max(1, len(of_topic) - 1)
    is_skewed = len(of_topic) > 1 and rate >= SKEWED * others
    return OffendingRow(
        topic=topic,
        kafka_partition=int(number),
        bytes_per_second=float(rate),
        share=rate / usable,
        skew=rate / mean if mean > 0 else 1.0,
        topic_partitions=len(of_topic),
        since_ms=_since(*map(int, times)),
        advice=Remedy.FIX_KEY if is_skewed else Remedy.ADD_PARTITIONS,
    )
