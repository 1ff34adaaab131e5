"""Divides queries over all partitions of a cluster into pages, so that each result is limited.

Pages limit the memory of Pinot and of this process. No page reaches Pinot's limit of groups, above which
Pinot truncates a result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
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

_IN_RANGE: Final = "and topic >= %(first)s and topic <= %(last)s"
_NAMED: Final = "and topic in (%(topics)s)"


def bounds(cluster: str, when: TimeRange) -> dict[str, Value]:
    """Return the parameters of the condition `Grain.where`."""
    return {"cluster": cluster, "since": when.since_ms, "until": when.until_ms}


@dataclass(frozen=True)
class QueryPage:
    """Part of a query: topics from `first` to `last`, and partition numbers from `low` to below `high`.

    `topics`: the only topics of the page; empty if the page has all topics from `first` to `last`.
    """

    first: str
    last: str
    low: int = 0
    high: int = _EVERY_NUMBER
    topics: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """SQL condition that is appended to `Grain.where`; `parameters` has its values."""
        topics = _NAMED if self.topics else _IN_RANGE
        return f"{topics} and kafka_partition >= %(low)s and kafka_partition < %(high)s"

    @property
    def parameters(self) -> dict[str, Value]:
        """Parameter values for `condition`."""
        numbers: dict[str, Value] = {"low": self.low, "high": self.high}
        return numbers | (
            {"topics": self.topics} if self.topics else {"first": self.first, "last": self.last}
        )


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
    only = "" if topics is None else _NAMED
    answer = client.ask(
        f"select topic, max(kafka_partition) from {grain.table} {grain.where} {only} "  # noqa: S608
        f"group by topic limit {MOST_TOPICS}",
        given if topics is None else {**given, "topics": list(topics)},
    )
    found = ((topic, min(int(highest) + 1, MOST_PARTITIONS)) for topic, highest in answer.rows)
    sizes = sorted(size for size in found if is_legal_topic(size[0]))
    whole = cut(sizes, page_partitions)
    return whole if topics is None else (_naming(page, sizes) for page in whole)


def _naming(page: QueryPage, sizes: Sequence[tuple[str, int]]) -> QueryPage:
    """Return a page that is limited to the topics in `sizes`. Other topics may lie between them."""
    return replace(page, topics=tuple(topic for topic, _ in sizes if page.first <= topic <= page.last))


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
