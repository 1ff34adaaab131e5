"""Reads measurements from the metrics topic that instances write. Implements `monitor.ports.Measurements` and
`monitor.objectives.past.PastMeasurements`."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import fastavro

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.adapters.settings import KafkaCluster
from mirror.client.cluster import Cluster
from mirror.errors import AnalyticsError, HeadraceError, TopicRecreated
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.protocol.control.offsets import LATEST
from monitor.adapters.topic_position import TopicPosition, first_offsets
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Observations, Source
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import TopicLatencySums
from monitor.recent_rows import RecentRows, columns_read

_log = get_logger(__name__)
_T = TypeVar("_T")
LONGEST_SECONDS: Final = 3_600
"""Longest supported window. Rows of the last hour are kept in memory by minute, and read again after a failed
read."""


_ONE_LOOK_MS: Final = 1_000
"""Maximum age in ms of the last read of the metrics topic for which another window can reuse it."""
_REACHES_MS: Final = (120_000, 600_000, 4_200_000)
"""Lengths of the time range that is read for past periods, in ms. The shortest sufficient length is used.

A longer range must be read again from its start, so there are few lengths. The longest covers a full hour ten
minutes after its end.
"""
_LONGEST_PAUSE_MS: Final = 600_000
"""Pause in ms after which a read starts at the requested window instead of the last position."""
_MOST_ROWS: Final = 1_000_000
"""Maximum number of rows that are read again to measure a past period.

Decoding these rows takes one core about 10 s, in which no objective is evaluated.
"""


@dataclass
class _ReadState:
    """Rows read from the metrics topic, and the position of the reader."""

    rows: RecentRows
    position: TopicPosition = field(default_factory=TopicPosition)


class TopicMeasurements:
    """Reads the metrics topic: a whole window at the first call, and only new rows at later calls.

    Windows that are requested within a second share one read. After a failure, a pause longer than the
    longest window, or a clock that was ahead, reading restarts at the start of this window. A window is at
    most one hour long. Unavailable partitions are skipped, and read when they are available again.

    `patience_seconds`: timeout of a request to a broker. `remark`: reason why the topic is read instead of
    Pinot.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        clock: Clock,
        patience_seconds: float = 10.0,
        remark: str = "",
    ) -> None:
        self.remark = remark
        self._client = TopicClient(cluster, topic, "headrace-monitor", patience_seconds)
        self._topic = topic
        self._clock = clock
        self._schema = fastavro.parse_schema(columns_read())
        self._least_ms = math.inf
        """Smallest latency limit requested so far. For past periods, only latencies above this value are
        kept."""
        self._state = _ReadState(RecentRows())
        self._looked_ms = self._longest_ms = 0
        self._answered: set[int] = set()
        """Lengths (ms) of the windows that have used the latest read."""

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """Return the measurements of each topic that has rows in the window.

        Ages below `least_ms` are included, because all rows are read anyway. Raises TopicMissing, TimedOut,
        Unreachable, NotAuthorized; AnalyticsError if the window is too long.
        """
        window_ms, now_ms = int(window_seconds * 1000), self._clock.now_ms()
        if least_ms:
            self._require_times(least_ms)
        if window_seconds > LONGEST_SECONDS:
            raise AnalyticsError(
                f"cannot read a window of {window_seconds:g} s from {self._topic}",
                advice="windows of more than an hour require Pinot",
            )
        self._ensure_read(now_ms, window_ms, is_new=window_ms in self._answered)
        self._answered.add(window_ms)
        return self._state.rows.observe(now_ms, window_ms)

    def past(
        self, period: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        """Return the measurements of every topic in a period of the last hour.

        Raises the errors of `observe`; AnalyticsError for an older period or too many rows.
        """
        now_ms = self._clock.now_ms()
        reach_ms = next((reach for reach in _REACHES_MS if reach >= now_ms - period.since_ms), None)
        if reach_ms is None:
            raise AnalyticsError(
                f"cannot read measurements older than an hour from {self._topic}",
                advice="measurements older than an hour require Pinot",
            )
        self._require_times(min(milliseconds, default=math.inf))
        self._ensure_read(now_ms, _REACHES_MS[0])
        if reach_ms > self._longest_ms:
            self._refuse_too_many(now_ms - reach_ms)
            self._ensure_read(now_ms, reach_ms)
        return self._state.rows.past(period, milliseconds)

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics:
        """Return, for each topic, the records since `since_ms` that were late, at most of the last hour.
        Raises the errors of `observe`."""
        now_ms = self._clock.now_ms()
        self._require_times(least_ms)
        self._ensure_read(now_ms, min(now_ms - since_ms, LONGEST_SECONDS * 1_000))
        return self._state.rows.late(sources, since_ms)

    def _require_times(self, least_ms: float) -> None:
        """Keep the times of latencies above `least_ms` from now on. If these were not kept before, drop all
        rows, so that they are read again."""
        if least_ms < self._least_ms:
            self._least_ms = least_ms
            self._drop()

    def _ensure_read(self, now_ms: int, length_ms: int, *, is_new: bool = False) -> None:
        is_past = now_ms - self._looked_ms > min(self._longest_ms, _LONGEST_PAUSE_MS)
        was_ahead = self._looked_ms - now_ms > _ONE_LOOK_MS
        if is_past or was_ahead or length_ms > self._longest_ms:
            self._drop()
            self._longest_ms = length_ms
        if is_new or not 0 <= now_ms - self._looked_ms < _ONE_LOOK_MS:
            self._answered.clear()
            self._read_again(now_ms - self._longest_ms)
            self._looked_ms = now_ms
            self._state.rows.forget(now_ms, self._longest_ms)

    def close(self) -> None:
        """Close the connections in the background, and drop all rows."""
        self._client.close()
        self._drop()

    def _drop(self) -> None:
        """Drop all rows. A read that is in progress adds its rows to the dropped ones."""
        self._state, self._looked_ms = _ReadState(RecentRows(self._least_ms)), 0

    def _refuse_too_many(self, since_ms: int) -> None:
        rows = self._ask(partial(self._count_rows, since_ms))
        if rows > _MOST_ROWS:
            raise AnalyticsError(
                f"{self._topic} has {rows} rows since {since_ms}, more than the limit of {_MOST_ROWS}",
                advice="error budgets of a service of this size require Pinot",
            )

    def _read_again(self, since_ms: int) -> None:
        try:
            self._read(since_ms)
        except TopicRecreated:
            _log.info("metrics topic recreated, reading it again")
            self._read(since_ms)

    def _read(self, since_ms: int) -> None:
        self._ask(partial(self._read_on, self._state, since_ms))

    def _ask(self, question: Callable[[Cluster], Coroutine[Any, Any, _T]]) -> _T:
        try:
            return self._client.ask("cannot read", question)
        except HeadraceError:
            self._drop()
            raise

    async def _read_on(self, state: _ReadState, since_ms: int, cluster: Cluster) -> None:
        """Read the rows after the position of each partition. Raises TopicRecreated if the topic was created
        again since the last read."""
        ranges = await state.position.ranges(self._client, cluster, since_ms)
        await state.position.read(
            self._client, cluster, ranges, lambda value: state.rows.add(self._row(value))
        )

    async def _count_rows(self, since_ms: int, cluster: Cluster) -> int:
        """Return the number of rows in the metrics topic since `since_ms`, without unavailable partitions."""
        places = [TopicPartition(self._topic, number) for number in self._state.position.next]
        ends = await self._client.available_offsets(cluster, places, LATEST)
        starts = await first_offsets(self._client, cluster, ends, since_ms, ends)
        return sum(ends[place] - start for place, start in starts.items())

    def _row(self, value: bytes) -> dict[str, Any]:
        row: Any = fastavro.schemaless_reader(io.BytesIO(value), self._schema, None)
        assert isinstance(row, dict)
        return row
