"""What Pinot knows about loads: rates per partition and topic, offending partitions, movers, freshness.

Conventions as in `queries.py`. Rows carry the sums and means that `pmp.rates` turns into loads;
judging them is not done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.topics import is_legal_topic
from pinot.client import PinotClient, Row
from pinot.paging import MOST_TOPICS, ON_PAGE, PAGE_PARTITIONS, Grain, Page, answered, bounds, pages
from pinot.tables import Statistic
from pinot.time_range import TimeRange


class PartitionRates(NamedTuple):
    """What the samples of one partition say over a range. Rates per second, sizes in bytes.

    `oldest_ms`, `newest_ms`: times of its first and last sample (of hours: their beginnings); `begin_ms`:
    from when on its growths speak. `broker`: of the newest sample.
    `inflow`: the asked statistic of the inflow; over hours, p95 is the p95 of the hours' p95.
    `sampled`: mean of the sampled rate, which in Cruise Control is an average over the topic on that
    broker. `messages`: mean of the sampled message rate, None where it is not known throughout.
    `growth_bytes` over `growth_ms`: what the log grew by, where that is known; of a growth that began
    before the range only the share inside (the hours of rollups are taken whole). `shrunk` samples found
    the log smaller than before. A tuple, because there are hundreds of thousands of them.
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
    shrunk: int
    size_bytes: float


_COLUMNS: Final = {
    Grain.SAMPLES: (
        "count(*), count(*), max(time_ms), min(time_ms), min(time_ms - growth_ms), "
        "lastwithtime(broker, time_ms, 'long'), {inflow}, sum(bytes_in_per_second), "
        "sum(messages_in_per_second), min(messages_in_per_second), "
        "sum(case when time_ms - growth_ms >= %(since)s then growth_bytes "
        "else growth_bytes * (time_ms - %(since)s) / growth_ms end), "
        "sum(case when time_ms - growth_ms >= %(since)s then growth_ms else time_ms - %(since)s end), "
        "sum(shrunk), max(size_bytes)"
    ),
    Grain.HOURS: (
        "count(*), sum(samples), max(hour_ms), min(hour_ms), min(hour_ms), "
        "lastwithtime(broker, hour_ms, 'long'), {inflow}, sum(sampled_bytes_per_second), "
        "sum(mean_messages_per_second), min(mean_messages_per_second), "
        "sum(growth_bytes), sum(growth_ms), sum(shrunk), max(size_bytes)"
    ),
}
"""Means are sums here, divided by the rows afterwards: Pinot's `avg` keeps an object per group."""
_INFLOW: Final = {
    Grain.SAMPLES: {
        Statistic.MEAN: "sum(inflow_bytes_per_second)",
        Statistic.P95: "percentile(inflow_bytes_per_second, 95)",
        Statistic.MAX: "max(inflow_bytes_per_second)",
    },
    Grain.HOURS: {
        Statistic.MEAN: "sum(mean_bytes_per_second)",
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
    """Rates of every partition with samples in the range; of some topics, or of all."""
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
    """The same in pages of about `page_partitions`, sorted by topic; memory stays that of one page."""
    select = _COLUMNS[grain].format(inflow=_INFLOW[grain][statistic])
    wanted = None if topics is None else set(topics)
    given = bounds(cluster, when)
    statement = (
        f"select topic, kafka_partition, {select} from {grain.table} {grain.where} {ON_PAGE} "  # noqa: S608
        f"group by topic, kafka_partition limit {2 * page_partitions}"
    )

    def of_page(page: Page) -> list[PartitionRates]:
        rows = client.ask(statement, given | page.parameters).rows
        chosen = (row for row in rows if wanted is None or row[0] in wanted)
        return [_rates(row, statistic) for row in chosen if is_legal_topic(row[0])]

    return answered(pages(client, grain, given, topics=topics, page_partitions=page_partitions), of_page)


def _rates(row: Row, statistic: Statistic) -> PartitionRates:
    topic, number, rows, samples, newest, oldest, begin, broker, *numbers = row
    inflow, sampled, messages, least, growth_bytes, growth_ms, shrunk, size = numbers
    return PartitionRates(
        topic=topic,
        kafka_partition=int(number),
        samples=int(samples),
        newest_ms=int(newest),
        oldest_ms=int(oldest),
        begin_ms=int(begin),
        broker=int(broker),
        inflow=inflow / rows if statistic is Statistic.MEAN else float(inflow),
        sampled=sampled / rows,
        messages=None if least < 0 else messages / rows,
        growth_bytes=float(growth_bytes),
        growth_ms=int(growth_ms),
        shrunk=int(shrunk),
        size_bytes=float(size),
    )


@dataclass(frozen=True, slots=True)
class TopicRates:
    """What is known of a topic as a whole: mean inflow of one of its partitions, bytes per second."""

    topic: str
    partitions: int
    mean_bytes_per_second: float
    newest_ms: int


def topic_rates(
    client: PinotClient, cluster: str, when: TimeRange, *, topics: Sequence[str] | None = None
) -> list[TopicRates]:
    """Topic-level loads from the hourly rollups, for partitions that have none of their own."""
    if topics is not None and not topics:
        return []
    only = "" if topics is None else "and topic in (%(topics)s)"
    given = bounds(cluster, when)
    answer = client.ask(
        "select topic, max(kafka_partition), avg(mean_bytes_per_second), max(hour_ms) "  # noqa: S608
        f"from partitionMetricsHourly {Grain.HOURS.where} {only} group by topic limit {MOST_TOPICS}",
        given if topics is None else {**given, "topics": list(topics)},
    )
    return [
        TopicRates(topic, int(high) + 1, float(mean), int(newest))
        for topic, high, mean, newest in answer.rows
    ]


_DAY_MS: Final = 24 * 3_600_000
_CHANGE: Final = (
    "sum(case when hour_ms >= %(middle)s then mean_bytes_per_second else 0 - mean_bytes_per_second end)"
)
_NEW_DAY: Final = "sum(case when hour_ms >= %(middle)s then mean_bytes_per_second else 0 end)"


@dataclass(frozen=True, slots=True)
class MoverRow:
    """A partition whose load changed. Means over a whole day, bytes per second; an hour without
    samples counts as 0."""

    topic: str
    kafka_partition: int
    day_bytes_per_second: float
    day_before_bytes_per_second: float
    change_bytes_per_second: float


def top_movers(client: PinotClient, cluster: str, when: TimeRange, *, limit: int = 50) -> list[MoverRow]:
    """The largest changes from the day before to the day that ends with the range, either way."""
    until = when.until_ms
    given = bounds(cluster, TimeRange(until - 2 * _DAY_MS, until))
    given |= {"middle": until - _DAY_MS}

    def of_page(page: Page) -> list[MoverRow]:
        found = []
        for direction in ("desc", "asc"):
            answer = client.ask(
                f"select topic, kafka_partition, {_CHANGE}, {_NEW_DAY} "  # noqa: S608
                f"from partitionMetricsHourly {Grain.HOURS.where} {ON_PAGE} "
                f"group by topic, kafka_partition order by {_CHANGE} {direction} limit {int(limit)}",
                given | page.parameters,
            )
            found += [_mover(row) for row in answer.rows]
        return found

    largest: list[MoverRow] = []
    for movers in answered(pages(client, Grain.HOURS, given), of_page):
        largest = _largest([*largest, *movers], limit)
    return largest


def _mover(row: Row) -> MoverRow:
    topic, number, change, now = row
    return MoverRow(topic, int(number), now / 24, (now - change) / 24, change / 24)


def _largest(rows: list[MoverRow], limit: int) -> list[MoverRow]:
    """Each partition once, without those that did not change."""
    changed = {(row.topic, row.kafka_partition): row for row in rows if row.change_bytes_per_second}
    ordered = sorted(
        changed.values(), key=lambda row: (-abs(row.change_bytes_per_second), row.topic, row.kafka_partition)
    )
    return ordered[:limit]


@dataclass(frozen=True, slots=True)
class FreshnessRow:
    """How far one cluster's samples reach, and how much they cover.

    `grown`: share of the samples whose log growth is known, 0 to 1.
    """

    datacenter: str
    cluster: str
    source: str
    newest_ms: int
    samples: int
    partitions: int
    topics: int
    grown: float


def freshness(client: PinotClient, when: TimeRange) -> list[FreshnessRow]:
    """Newest sample and coverage per cluster and sampler, over the samples of the range."""
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
