"""Queries of measured rates of partitions and topics, the largest changes of load, and the latest samples.

Conventions as in `queries.py`. Rows contain sums and means; `pmp.loads` converts them to loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.topics import is_legal_topic
from pinot.client import PinotClient, Row, Value
from pinot.partitions.pages import (
    MOST_TOPICS,
    PAGE_PARTITIONS,
    Grain,
    QueryPage,
    answered,
    bounds,
    pages,
)
from pinot.partitions.rollups import HOUR_MS
from pinot.rows import checked_rows
from pinot.tables import Statistic
from pinot.time_range import TimeRange


class PartitionRates(NamedTuple):
    """Measurements of one partition in a time range. Rates per second, sizes in bytes.

    `oldest_ms`, `newest_ms`: times of its first and last sample (with rollups: end of the first hour, start
    of the last); `begin_ms`: start of the time that its growths cover. `broker`: broker of the latest sample.
    `inflow`: requested statistic of the inbound rate. With rollups, p95 is the p95 of the hourly p95 values;
    p95 and maximum include every hour that overlaps the range; means of hours are weighted by samples.
    `sampled`: mean of the sampled rate, which with Cruise Control is an average over the topic on that
    broker. `messages`: mean of the sampled message rate, None unless all samples have it. `growth_bytes` over
    `growth_ms`: known growth of the log; of a growth or hour that started before the range, only the share
    inside the range counts. `longest_ms`: longest time between two sizes of the log inside the range; 0 with
    rollups, which do not contain it. `shrunk`: number of samples that found the log smaller than before.

    The class is a tuple to save memory, because there may be hundreds of thousands of objects.
    """

    topic: str
    kafka_partition: int
    samples: int
    newest_ms: int
    oldest_ms: int
    begin_ms: int
    broker: int
    inflow: float
    sampled: float
    messages: float | None
    growth_bytes: float
    growth_ms: int
    longest_ms: int
    shrunk: int
    size_bytes: float

    @property
    def is_possible(self) -> bool:
        """False if a rate is NaN or infinite: a foreign row is in the table."""
        return math.isfinite(self.inflow + self.sampled + (self.messages or 0.0) + self.growth_bytes)


_WEIGHT: Final = "samples * (case when hour_ms < %(window)s then %(inside)s / 3600000.0 else 1 end)"
"""SQL for the number of an hour's samples within the range, if evenly distributed over the hour."""
_HOURS_GROWTH: Final = (
    "sum(case when hour_ms < %(window)s "
    "then {0} * %(inside)s / (case when growth_ms > 3600000 then growth_ms else 3600000 end) else {0} end)"
)
"""Log growth in the range. Growth stored in the first hour counts in part, because it may have started before
that hour."""
_INSIDE: Final = "case when time_ms - growth_ms >= %(since)s then growth_ms else time_ms - %(since)s end"
"""Part of the duration of a log growth that is inside the range."""
_COLUMNS: Final = {
    Grain.SAMPLES: (
        "count(*), count(*), max(time_ms), min(time_ms), min(time_ms - growth_ms), "
        "lastwithtime(broker, time_ms, 'long'), {inflow}, sum(bytes_in_per_second), "
        "sum(messages_in_per_second), min(messages_in_per_second), "
        "sum(case when time_ms - growth_ms >= %(since)s then growth_bytes "
        "else growth_bytes * (time_ms - %(since)s) / growth_ms end), "
        f"sum({_INSIDE}), max({_INSIDE}), sum(shrunk), max(size_bytes)"
    ),
    Grain.HOURS: (
        f"sum({_WEIGHT}), sum(samples), max(hour_ms), min(hour_ms + 3600000), "
        "min(hour_ms + 3600000 - growth_ms), lastwithtime(broker, hour_ms, 'long'), {inflow}, "
        f"sum(sampled_bytes_per_second * {_WEIGHT}), sum(mean_messages_per_second * {_WEIGHT}), "
        f"min(mean_messages_per_second), {_HOURS_GROWTH.format('growth_bytes')}, "
        f"{_HOURS_GROWTH.format('growth_ms')}, max(growth_ms - growth_ms), sum(shrunk), max(size_bytes)"
    ),
}
"""Columns of a query. Means are computed as sums divided by the first column, because Pinot's `avg` allocates
an object per group."""
_INFLOW: Final = {
    Grain.SAMPLES: {
        Statistic.MEAN: "sum(inflow_bytes_per_second)",
        Statistic.P95: "percentile(inflow_bytes_per_second, 95)",
        Statistic.MAX: "max(inflow_bytes_per_second)",
    },
    Grain.HOURS: {
        Statistic.MEAN: f"sum(mean_bytes_per_second * {_WEIGHT})",
        Statistic.P95: "percentile(p95_bytes_per_second, 95)",
        Statistic.MAX: "max(max_bytes_per_second)",
    },
}


def partition_rates(
    client: PinotClient,
    cluster: str,
    when: TimeRange,
    *,
    statistic: Statistic = Statistic.P95,
    grain: Grain = Grain.SAMPLES,
    topics: Sequence[str] | None = None,
) -> list[PartitionRates]:
    """Return the rates of the partitions that have samples in the range, of the given topics or of all.

    With rollups, the last hour that overlaps the range counts completely, so end the range at a full hour or
    at the current time.
    """
    pages = partition_rates_pages(
        client,
        cluster,
        when,
        statistic=statistic,
        grain=grain,
        topics=topics,
        page_partitions=PAGE_PARTITIONS,
    )
    return [rates for page in pages for rates in page]


def partition_rates_pages(
    client: PinotClient,
    cluster: str,
    when: TimeRange,
    *,
    statistic: Statistic = Statistic.P95,
    grain: Grain = Grain.SAMPLES,
    topics: Sequence[str] | None = None,
    page_partitions: int = PAGE_PARTITIONS,
) -> Iterator[list[PartitionRates]]:
    """Yield the rates of partitions sorted by topic, about `page_partitions` at a time.

    Only one page is in memory at a time.
    """
    select = _COLUMNS[grain].format(inflow=_INFLOW[grain][statistic])
    given = bounds(cluster, when) if grain is Grain.SAMPLES else _hours(cluster, when)

    @checked_rows
    def of_page(page: QueryPage) -> list[PartitionRates]:
        rows = client.ask(
            f"select topic, kafka_partition, {select} "  # noqa: S608
            f"from {grain.table} {grain.where} {page.condition} "
            f"group by topic, kafka_partition limit {2 * page_partitions}",
            given | page.parameters,
        ).rows
        found = (_rates(row, statistic) for row in rows if is_legal_topic(row[0]))
        return [rates for rates in found if rates.is_possible]

    return answered(pages(client, grain, given, topics=topics, page_partitions=page_partitions), of_page)


def _hours(cluster: str, when: TimeRange) -> dict[str, Value]:
    """Return the query parameters that select the hours overlapping a range.

    The parameters include the share of the first hour that is within the range.
    """
    begin = when.since_ms // HOUR_MS * HOUR_MS
    inside_ms = float(begin + HOUR_MS - when.since_ms)
    touched = bounds(cluster, TimeRange(begin, when.until_ms))
    return {**touched, "window": when.since_ms, "inside": inside_ms}


def _rates(row: Row, statistic: Statistic) -> PartitionRates:
    topic, number, weight, samples, newest, oldest, begin, broker, *numbers = row
    inflow, sampled, messages, least, growth_bytes, growth_ms, longest_ms, shrunk, size = numbers
    return PartitionRates(
        topic=topic,
        kafka_partition=int(number),
        samples=int(samples),
        newest_ms=int(newest),
        oldest_ms=int(oldest),
        begin_ms=int(begin),
        broker=int(broker),
        inflow=float(inflow) / (weight if statistic is Statistic.MEAN else 1),
        sampled=float(sampled) / weight,
        messages=None if least < 0 else messages / weight,
        growth_bytes=float(growth_bytes),
        growth_ms=int(growth_ms),
        longest_ms=int(longest_ms),
        shrunk=int(shrunk),
        size_bytes=float(size),
    )


@dataclass(frozen=True, slots=True)
class TopicRates:
    """Measurements of a topic: the mean inflow of its partitions in bytes per second.

    `partitions`: number of partitions with samples. `newest_ms`: start of the latest hour.
    """

    topic: str
    partitions: int
    mean_bytes_per_second: float
    newest_ms: int


@checked_rows
def topic_rates(
    client: PinotClient, cluster: str, when: TimeRange, *, topics: Sequence[str] | None = None
) -> list[TopicRates]:
    """Return the loads of topics from the hourly rollups, for partitions whose own loads are unknown."""
    if topics is not None and not topics:
        return []
    only = "" if topics is None else "and topic in (%(topics)s)"
    given = bounds(cluster, when)
    answer = client.ask(
        "select topic, distinctcount(kafka_partition), "  # noqa: S608
        "sum(mean_bytes_per_second * samples), sum(samples), max(hour_ms) "
        f"from partitionMetricsHourly {Grain.HOURS.where} {only} group by topic limit {MOST_TOPICS}",
        given if topics is None else {**given, "topics": list(topics)},
    )
    return [
        TopicRates(topic, int(count), total / samples, int(newest))
        for topic, count, total, samples, newest in answer.rows
    ]


_DAY_MS: Final = 24 * 3_600_000
_DAYS: Final = ("hour_ms >= %(middle)s", "hour_ms < %(middle)s")
_SUMS: Final = tuple(f"sum(case when {day} then mean_bytes_per_second else 0 end)" for day in _DAYS)
_KNOWN: Final = tuple(f"sum(case when {day} then 1 else 0 end)" for day in _DAYS)
_CHANGE: Final = f"{_SUMS[0]} / {_KNOWN[0]} - {_SUMS[1]} / {_KNOWN[1]}"


@dataclass(frozen=True, slots=True)
class MoverRow:
    """A partition whose load differs from that of the day before.

    Means over the hours of a day that have samples, in bytes per second; `day_hours` and `day_before_hours`
    are the number of these hours, 1 to 24.
    """

    topic: str
    kafka_partition: int
    day_bytes_per_second: float
    day_before_bytes_per_second: float
    change_bytes_per_second: float
    day_hours: int
    day_before_hours: int


def top_movers(client: PinotClient, cluster: str, when: TimeRange, *, limit: int = 50) -> list[MoverRow]:
    """Return the partitions whose load has changed most since the day before. The later day ends with the
    range."""
    until = when.until_ms
    given = bounds(cluster, TimeRange(until - 2 * _DAY_MS, until))
    given |= {"middle": until - _DAY_MS}

    @checked_rows
    def of_page(page: QueryPage) -> list[MoverRow]:
        found = []
        for direction in ("desc", "asc"):
            answer = client.ask(
                f"select topic, kafka_partition, {', '.join((*_SUMS, *_KNOWN))} "  # noqa: S608
                f"from partitionMetricsHourly {Grain.HOURS.where} {page.condition} "
                "group by topic, kafka_partition "
                f"having {_KNOWN[0]} > 0 and {_KNOWN[1]} > 0 "
                f"order by {_CHANGE} {direction} limit {int(limit)}",
                given | page.parameters,
            )
            found += [_mover(row) for row in answer.rows]
        return found

    largest: list[MoverRow] = []
    for movers in answered(pages(client, Grain.HOURS, given), of_page):
        largest = _largest([*largest, *movers], limit)
    return largest


def _mover(row: Row) -> MoverRow:
    topic, number, total, total_before, hours, hours_before = row
    mean, before = total / hours, total_before / hours_before
    return MoverRow(topic, int(number), mean, before, mean - before, int(hours), int(hours_before))


def _largest(rows: list[MoverRow], limit: int) -> list[MoverRow]:
    """Sort partitions by the size of their load change, without duplicates and unchanged partitions, and
    return the first."""
    changed = {(row.topic, row.kafka_partition): row for row in rows if row.change_bytes_per_second}
    ordered = sorted(
        changed.values(), key=lambda row: (-abs(row.change_bytes_per_second), row.topic, row.kafka_partition)
    )
    return ordered[:limit]


@dataclass(frozen=True, slots=True)
class FreshnessRow:
    """Time of the latest sample (`newest_ms`, epoch ms) of one cluster by one sampler.

    `grown`: share of samples with known log growth, 0 to 1.
    """

    datacenter: str
    cluster: str
    source: str
    newest_ms: int
    samples: int
    partitions: int
    topics: int
    grown: float


@checked_rows
def freshness(client: PinotClient, when: TimeRange) -> list[FreshnessRow]:
    """Return the time of the latest sample in the range, for each cluster and sampler."""
    answer = client.ask(
        "select datacenter, cluster, source, max(time_ms), count(*), "
        "distinctcount(concat(topic, cast(kafka_partition as string), '/')), distinctcount(topic), "
        "sum(case when growth_ms > 0 then 1 else 0 end) "
        "from partitionMetrics where time_ms >= %(since)s and time_ms < %(until)s "
        "group by datacenter, cluster, source order by datacenter, cluster, source limit 10000",
        {"since": when.since_ms, "until": when.until_ms},
    )
    return [
        FreshnessRow(dc, cluster, source, int(newest), int(samples), int(count), int(topics), grown / samples)
        for dc, cluster, source, newest, samples, count, topics, grown in answer.rows
    ]


@checked_rows
def newest_sample(client: PinotClient, cluster: str, when: TimeRange) -> int | None:
    """Return the time of a cluster's latest sample in the range (epoch ms), or None."""
    answer = client.ask(
        "select count(*), max(time_ms) from partitionMetrics where cluster = %(cluster)s "
        "and time_ms >= %(since)s and time_ms < %(until)s limit 1",
        {"cluster": cluster, "since": when.since_ms, "until": when.until_ms},
    )
    ((samples, newest_ms),) = answer.rows
    return int(newest_ms) if samples else None
