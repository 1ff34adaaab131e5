"""Computes daily usage from the metrics topic that instances write, for services without Pinot."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import fastavro

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.adapters.settings import KafkaCluster
from mirror.client.cluster import Cluster
from mirror.errors import AnswerTooLarge, CorruptData, TopicRecreated
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema
from monitor.adapters.topic_position import TopicPosition
from monitor.usage_bill import DAY_MS
from pinot.history.points import UsageSum
from pinot.time_range import TimeRange

_SECONDS: Final = 60.0
MOST_ROWS: Final = 2_000_000
"""Maximum number of rows that are read for one response. Decoding these rows takes one core about 30 s."""
MOST_SUMS: Final = 200_000
_Key = tuple[int, str, str, str]
_COUNTS: Final = ("records_copied", "bytes_copied", "batches", "cpu_ms")


@dataclass
class _DailySums:
    """Daily sums of the rows since `since_ms`, the start of a day, and the position of the reader."""

    since_ms: int
    position: TopicPosition = field(default_factory=TopicPosition)
    sums: dict[_Key, list[float]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row to the daily sums. Raises CorruptData if a count is negative."""
        day_ms = row["time_ms"] // DAY_MS * DAY_MS
        counts = [row[name] for name in _COUNTS]
        if min(counts) < 0:
            raise CorruptData(f"a row of {row['topic']} has a negative count")
        if day_ms >= self.since_ms:
            key = day_ms, row["datastream"], row["source_cluster"], row["topic"]
            sums = self.sums.setdefault(key, [0.0] * len(_COUNTS))
            for number, count in enumerate(counts):
                sums[number] += count

    def forget(self, before_ms: int) -> None:
        """Drop the sums of all days before `before_ms`."""
        self.since_ms = before_ms
        self.sums = {key: total for key, total in self.sums.items() if key[0] >= before_ms}


class TopicUsage:
    """Daily sums of the rows in the metrics topic. Thread-safe.

    The sums are kept between calls, so that each call reads only new rows.

    A call for an earlier day reads the topic again from that day. If the number of sums (one per topic and
    day) exceeds `most_sums`, sums before the requested days are dropped. `patience_seconds`: timeout of a
    request to a broker.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        most_rows: int = MOST_ROWS,
        most_sums: int = MOST_SUMS,
        patience_seconds: float = 10.0,
    ) -> None:
        self._client = TopicClient(cluster, topic, "headrace-usage", patience_seconds)
        self._most_rows = most_rows
        self._most_sums = most_sums
        self._schema = fastavro.parse_schema(avro_schema(MirrorMetric))
        self._lock = threading.Lock()
        self._known: _DailySums | None = None

    def sums(self, when: TimeRange) -> list[UsageSum]:
        """Return the usage of each group, topic and day in the time range, which starts at midnight (UTC).

        Raises TopicMissing, Unreachable, NotAuthorized, and AnswerTooLarge for too many rows or sums.
        """
        with self._lock:
            known, self._known = self._known, None  # a read that fails may have counted a part
            if known is None or when.since_ms < known.since_ms:
                known = _DailySums(when.since_ms)
            known = self._new_rows(known)
            if len(known.sums) > self._most_sums:
                known.forget(when.since_ms)
            if len(known.sums) > self._most_sums:
                raise AnswerTooLarge(
                    f"{self._client.topic} has more than {self._most_sums} sums (one per topic and day) in"
                    " this period",
                    advice="choose fewer days, or use Pinot",
                )
            self._known = known
            return [
                UsageSum(*key, int(records), int(size), int(batches), cpu_ms)
                for key, (records, size, batches, cpu_ms) in known.sums.items()
                if when.since_ms <= key[0] < when.until_ms and records
            ]

    def _new_rows(self, known: _DailySums) -> _DailySums:
        """Add the new rows of the topic to the sums, and return the sums; new ones if the topic was created
        again."""
        try:
            self._client.ask("cannot read", partial(self._read, known), _SECONDS)
        except TopicRecreated:
            known = _DailySums(known.since_ms)
            self._client.ask("cannot read", partial(self._read, known), _SECONDS)
        return known

    async def _read(self, known: _DailySums, cluster: Cluster) -> None:
        """Add the new rows of the topic to the sums.

        Raises Unreachable if a partition is unavailable, because the sums would be too small.
        """
        ranges = await known.position.ranges(self._client, cluster, known.since_ms)
        self._client.require_available()
        rows = sum(map(len, ranges.values()))
        if rows > self._most_rows:
            raise AnswerTooLarge(
                f"{self._client.topic} has {rows} rows in this period, more than the limit of"
                f" {self._most_rows}",
                advice="choose fewer days, or use Pinot",
            )
        await known.position.read(self._client, cluster, ranges, lambda value: known.add(self._row(value)))
        self._client.require_available()

    def _row(self, value: bytes) -> Mapping[str, Any]:
        row: Any = fastavro.schemaless_reader(io.BytesIO(value), self._schema, None)
        return row if isinstance(row, Mapping) else {}
