"""Asks about all partitions of a cluster in pages of topics.

Neither Pinot nor this process holds more than a few pages at a time, and no page reaches Pinot's own limit
of groups, which would cut it.
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
from pinot.rows import as_asked
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY
from pinot.time_range import TimeRange

PAGE_PARTITIONS: Final = 25_000
"""Partitions of one page: far below Pinot's default limit of groups, and small enough to be read quickly."""
PAGES_AT_ONCE: Final = 2
"""A server groups a query on half of its cores at most, and rows are read while it works on others."""
MOST_TOPICS: Final = 100_000

T = TypeVar("T")

_EVERY_NUMBER: Final = 2**31


class Grain(StrEnum):
    """The table that is asked: single samples, or hourly rollups for days and weeks."""

    SAMPLES = "samples"
    HOURS = "hours"

    @property
    def table(self) -> str:
        """Name of the table."""
        return _TABLES[self].name

    @property
    def where(self) -> str:
        """The condition that `bounds` gives values to: one cluster, one range of time."""
        time = _TABLES[self].time_column
        return f"where cluster = %(cluster)s and {time} >= %(since)s and {time} < %(until)s"


_TABLES: Final = {Grain.SAMPLES: PARTITION_METRICS, Grain.HOURS: PARTITION_METRICS_HOURLY}

ON_PAGE: Final = (
    "and topic >= %(first)s and topic <= %(last)s "
    "and kafka_partition >= %(low)s and kafka_partition < %(high)s"
)
"""The condition that `Page.parameters` give values to, behind `Grain.where`."""


def bounds(cluster: str, when: TimeRange) -> dict[str, Value]:
    """Values for `Grain.where`."""
    return {"cluster": cluster, "since": when.since_ms, "until": when.until_ms}


@dataclass(frozen=True)
class Page:
    """Topics from `first` to `last`, partition numbers from `low` to below `high`."""

    first: str
    last: str
    low: int = 0
    high: int = _EVERY_NUMBER

    @property
    def parameters(self) -> dict[str, Value]:
        """Values for `ON_PAGE`."""
        return {"first": self.first, "last": self.last, "low": self.low, "high": self.high}


@as_asked
def pages(
    client: PinotClient,
    grain: Grain,
    given: dict[str, Value],
    *,
    topics: Sequence[str] | None = None,
    page_partitions: int = PAGE_PARTITIONS,
) -> Iterator[Page]:
    """The pages that hold every partition with samples; `given` are the `bounds`, `topics` a choice.

    Rows with impossible topics or partitions are skipped, so that they do not fail the others.
    """
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


def answered(pages: Iterator[Page], ask: Callable[[Page], T]) -> Iterator[T]:
    """The answers of `ask` for each page, in order; a few pages are asked at the same time."""
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


def cut(sizes: Sequence[tuple[str, int]], page_partitions: int) -> Iterator[Page]:
    """Pages of topics (sorted, with their partition counts); a huge topic becomes several. Pure."""
    first, last, filled = "", "", 0
    for topic, count in sizes:
        if filled and filled + count > page_partitions:
            yield Page(first, last)
            filled = 0
        if count > page_partitions:
            for low in range(0, count, page_partitions):
                yield Page(topic, topic, low, low + page_partitions)
            continue
        first, last, filled = topic if not filled else first, topic, filled + count
    if filled:
        yield Page(first, last)
