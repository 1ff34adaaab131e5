"""Divides queries over all partitions of a cluster into pages, so that each result is limited.

Pages limit the memory of Pinot and of this process. No page reaches Pinot's limit of groups, above which
Pinot truncates a result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from mirror.model.topics import MOST_PARTITIONS, is_legal_topic
from pinot.client import PinotClient, Value
from pinot.rows import checked_rows
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY
from pinot.time_range import TimeRange

PAGE_PARTITIONS: Final = 25_000
"""Partitions per page, far below Pinot's default limit of groups."""
PAGES_AT_ONCE: Final = 2
"""Number of concurrent queries.

Two are useful, because a Pinot server uses at most half of its cores for one query, and because this process
reads rows while the next query runs.
"""
MOST_TOPICS: Final = 100_000

T = TypeVar("T")

_EVERY_NUMBER: Final = 2**31


class Grain(StrEnum):
    """Table to query: samples for short ranges, or hourly rollups for days and weeks."""

    SAMPLES = "samples"
    HOURS = "hours"

    @property
    def table(self) -> str:
        """Name of the queried table."""
        return _TABLES[self].name

    @property
    def where(self) -> str:
        """SQL condition that selects one cluster and time range. `bounds` returns its parameters."""
        time = _TABLES[self].time_column
        return f"where cluster = %(cluster)s and {time} >= %(since)s and {time} < %(until)s"


_TABLES: Final = {Grain.SAMPLES: PARTITION_METRICS, Grain.HOURS: PARTITION_METRICS_HOURLY}

ON_PAGE: Final = (
    "and topic >= %(first)s and topic <= %(last)s "
    "and kafka_partition >= %(low)s and kafka_partition < %(high)s"
)
"""SQL condition that is appended to `Grain.where`; `QueryPage.parameters` has its values."""


def bounds(cluster: str, when: TimeRange) -> dict[str, Value]:
    """Return the parameters of the condition `Grain.where`."""
    return {"cluster": cluster, "since": when.since_ms, "until": when.until_ms}


@dataclass(frozen=True)
class QueryPage:
    """Part of a query: topics from `first` to `last`, and partition numbers from `low` to below `high`."""

    first: str
    last: str
    low: int = 0
    high: int = _EVERY_NUMBER

    @property
    def parameters(self) -> dict[str, Value]:
        """Parameters of the condition `ON_PAGE`."""
        return {"first": self.first, "last": self.last, "low": self.low, "high": self.high}


@checked_rows
def pages(
    client: PinotClient,
    grain: Grain,
    given: dict[str, Value],
    *,
    topics: Sequence[str] | None = None,
    page_partitions: int = PAGE_PARTITIONS,
) -> Iterator[QueryPage]:
    """Yield pages that together cover all partitions with samples. `given`: parameters from `bounds`.
    `topics`: None means all topics. Rows with invalid topics or partition numbers are skipped."""
    if topics is not None and not topics:
        return iter(())
    only = "" if topics is None else "and topic in (%(topics)s)"
    answer = client.ask(
        f"select topic, max(kafka_partition) from {grain.table} {grain.where} {only} "  # noqa: S608
        f"group by topic limit {MOST_TOPICS}",
        given if topics is None else {**given, "topics": list(topics)},
    )
    sizes = ((topic, min(int(highest) + 1, MOST_PARTITIONS)) for topic, highest in answer.rows)
    return cut(sorted(size for size in sizes if is_legal_topic(size[0])), page_partitions)


def answered(pages: Iterator[QueryPage], ask: Callable[[QueryPage], T]) -> Iterator[T]:
    """Call `ask` for each page of topics, and yield the results in order. A few pages are queried
    concurrently."""
    with ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
        under_way: deque[Future[T]] = deque()
        try:
            for page in pages:
                under_way.append(pool.submit(ask, page))
                if len(under_way) > PAGES_AT_ONCE:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def cut(sizes: Sequence[tuple[str, int]], page_partitions: int) -> Iterator[QueryPage]:
    """Divide topics into pages. A topic with many partitions is on several pages. Pure.

    Topics are sorted and have partition counts.
    """
    first, last, filled = "", "", 0
    for topic, count in sizes:
        if filled and filled + count > page_partitions:
            yield QueryPage(first, last)
            filled = 0
        if count > page_partitions:
            for low in range(0, count, page_partitions):
                yield QueryPage(topic, topic, low, low + page_partitions)
            continue
        first, last, filled = topic if not filled else first, topic, filled + count
    if filled:
        yield QueryPage(first, last)
