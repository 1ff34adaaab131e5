"""Daily sums of the metrics topic that instances write, for services without Pinot."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import fastavro
import structlog

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.settings import KafkaCluster
from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange
from mirror.errors import AnswerTooLarge, CorruptData
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import read_batch
from mirror.protocol.control.offsets import LATEST
from monitor.usage.bill import DAY_MS
from pinot.history.points import UsageSum
from pinot.time_range import TimeRange

_log = structlog.get_logger(__name__)
_SECONDS: Final = 60.0
MOST_ROWS: Final = 2_000_000
"""Maximum number of rows read for one answer: one core decodes them in about half a minute."""
_Key = tuple[int, str, str, str]
_COUNTS: Final = ("records_copied", "bytes_copied", "batches", "cpu_ms")


class TopicUsage:
    """Sums of the rows of a topic, kept between calls: only new rows are read. Thread-safe.

    A call for an earlier day reads the topic again from there. Memory depends on the number of topics and
    days.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, most_rows: int = MOST_ROWS) -> None:
        self._topic = topic
        self._most_rows = most_rows
        self._schema = fastavro.parse_schema(avro_schema(MirrorMetric))
        self._loop = LoopThread("usage")
        self._session = ClusterSession(
            cluster.bootstrap_servers, "headrace-usage", partial(usable_access, cluster)
        )
        self._lock = threading.Lock()
        self._since_ms: int | None = None
        self._next: dict[int, int] = {}
        self._sums: dict[_Key, list[float]] = {}
        self._has_left_out = False

    def sums(self, when: TimeRange) -> list[UsageSum]:
        """Return the sums of each group, topic and day in the range, which starts with a day.

        Raises TopicMissing, Unreachable, NotAuthorized, and AnswerTooLarge for too many rows.
        """
        with self._lock:
            since_ms, self._since_ms = self._since_ms, None  # until the read is complete
            if since_ms is None or when.since_ms < since_ms:
                since_ms, self._next, self._sums = when.since_ms, {}, {}
            read = partial(self._read, since_ms)
            doing = f"reading {self._topic}"
            self._loop.ask(doing, _SECONDS, lambda loop: self._session.ask(loop, read))
            self._since_ms = since_ms
            return [
                UsageSum(*key, int(records), int(size), int(batches), cpu_ms)
                for key, (records, size, batches, cpu_ms) in self._sums.items()
                if when.since_ms <= key[0] < when.until_ms and records
            ]

    async def _read(self, since_ms: int, cluster: Cluster) -> None:
        await cluster.refresh([self._topic])
        found = cluster.topics[self._topic]
        if found.error:
            doing = f"metadata of topic {self._topic} of {cluster.name}"
            raise cluster.error(found.error, doing, f"Read on topic {self._topic}")
        places = [TopicPartition(self._topic, number) for number in range(len(found.leaders))]
        ends = await self._offsets(cluster, places, LATEST)
        new = [place for place in places if place.partition not in self._next]
        starts = await self._offsets(cluster, new, since_ms)
        for place in new:
            start = starts[place]
            self._next[place.partition] = ends[place] if start < 0 else start
        if any(self._next[place.partition] > end for place, end in ends.items()):
            self._next, self._sums = {}, {}  # the topic was created again
            await self._read(since_ms, cluster)
            return
        rows = sum(end - self._next[place.partition] for place, end in ends.items())
        if rows > self._most_rows:
            raise AnswerTooLarge(
                f"{self._topic} has {rows} rows in this period, more than the limit of {self._most_rows}",
                advice="choose fewer days, or use Pinot",
            )
        for place, end in ends.items():
            await self._read_to(cluster, place, end, since_ms)

    async def _offsets(
        self, cluster: Cluster, places: list[TopicPartition], when: int
    ) -> Mapping[TopicPartition, int]:
        answers = await cluster.offsets(dict.fromkeys(places, when))
        for place, answer in answers.items():
            if answer.error:
                doing = f"reading the offsets of {place} of {cluster.name}"
                raise cluster.error(answer.error, doing, f"Describe on topic {place.topic}")
        return {place: answer.offset for place, answer in answers.items()}

    async def _read_to(self, cluster: Cluster, place: TopicPartition, end: int, since_ms: int) -> None:
        part = PartitionRange(cluster, place, self._next[place.partition], end)
        async for batch, header in part.batches():
            if header is None:
                continue  # only other programs write this format
            for record in read_batch(batch, header):
                if self._next[place.partition] <= record.offset < end:
                    with Bulkhead(partial(self._note_damaged, place, record.offset)):
                        self._add(record.value or b"", since_ms)
            self._next[place.partition] = header.last_offset + 1
        self._next[place.partition] = end

    def _add(self, value: bytes, since_ms: int) -> None:
        row: Any = fastavro.schemaless_reader(io.BytesIO(value), self._schema, None)
        day_ms = row["time_ms"] // DAY_MS * DAY_MS
        counts = [row[name] for name in _COUNTS]
        if min(counts) < 0:
            raise CorruptData(f"a row of {row['topic']} has a negative count")
        if day_ms < since_ms:
            return
        sums = self._sums.setdefault(
            (day_ms, row["datastream"], row["source_cluster"], row["topic"]), [0.0] * len(_COUNTS)
        )
        for number, count in enumerate(counts):
            sums[number] += count

    def _note_damaged(self, place: TopicPartition, offset: int, error: Exception) -> None:
        """Log the first invalid record."""
        if not self._has_left_out:
            self._has_left_out = True
            _log.warning(
                "invalid measurement records skipped",
                topic=place.topic,
                partition=place.partition,
                offset=offset,
                reason=str(error) or type(error).__name__,
            )
