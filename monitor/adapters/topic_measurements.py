"""Measurements from the metrics topic that instances write. Implements `monitor.ports.Measurements` and
`monitor.objectives.past.Past`."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

import fastavro
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_fixed

from librdkafka.errors import translate
from librdkafka.settings import consumer_settings
from mirror.bulkheads import Bulkhead
from mirror.errors import AnalyticsError, TimedOut, Unreachable
from mirror.ports import Clock
from mirror.settings import KafkaCluster
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Observations, Source
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import TopicLatencySums
from monitor.recent_rows import RecentRows, columns_read

_log = structlog.get_logger(__name__)
_WAIT_SECONDS: Final = 0.1
_AT_ONCE: Final = 10_000
LONGEST_SECONDS: Final = 3_600
"""Longest supported window. Rows of the last hour are kept by minute, and are read again if the connection
breaks."""


_ONE_LOOK_MS: Final = 1_000
"""Maximum age of the last read for which another window can reuse it."""
_REACHES_MS: Final = (120_000, 600_000, 4_200_000)
"""Time ranges that can be read for past pieces. The shortest range that contains the requested time is used,
because extending a range means that the whole range must be read again. The longest range contains a full
hour until some minutes after its end."""
_LONGEST_PAUSE_MS: Final = 600_000
"""Pause after which reading starts at the requested window instead of the last position."""
_MOST_ROWS: Final = 1_000_000
"""Maximum number of rows that are read again for past time ranges. One core decodes them in about 10 s, which
delays verdicts."""


def _passing(patience_seconds: float) -> Retrying:
    """Return the retry policy for moved leaders. Time-outs and other slow failures are not retried."""
    is_passing = retry_if_exception(
        lambda error: isinstance(error, Unreachable) and not isinstance(error, TimedOut)
    )
    stop = stop_after_attempt(3) | stop_after_delay(patience_seconds / 2)
    return Retrying(retry=is_passing, stop=stop, wait=wait_fixed(0.3), reraise=True)


class TopicMeasurements:
    """Reads the topic from the start of the window, and then in every call the new rows.

    Several windows requested in succession, as in a turn of the monitor, share one read. The connection is
    kept between reads. After a failure, or after a pause longer than the longest requested window, reading
    restarts at the beginning of that window. Windows are at most an hour. `remark`: reason for reading the
    topic instead of another source.
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
        self._cluster = cluster
        self._topic = topic
        self._clock = clock
        self._patience = patience_seconds
        self._schema = fastavro.parse_schema(columns_read())
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        """Offset to read next, by partition."""
        self._least_ms = math.inf
        """Smallest limit for waits requested for past pieces."""
        self._rows = RecentRows()
        self._looked_ms = self._longest_ms = 0
        self._answered: set[int] = set()
        """Windows that have used the last look."""
        self._has_left_out = False

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """Return an observation for each topic with rows in the window. Ages below `least_ms` are included,
        because all rows are read anyway.

        Raises TopicMissing, TimedOut, Unreachable, NotAuthorized, and AnalyticsError for a longer window.
        """
        window_ms, now_ms = int(window_seconds * 1000), self._clock.now_ms()
        if least_ms:
            self._require_times(least_ms)
        if window_seconds > LONGEST_SECONDS:
            raise AnalyticsError(
                f"a window of {window_seconds:g} s is too long for {self._topic}",
                advice="windows of more than an hour require Pinot",
            )
        self._look_back(now_ms, window_ms, is_new=window_ms in self._answered)
        self._answered.add(window_ms)
        return self._rows.observe(now_ms, window_ms)

    def past(
        self, period: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        """Return the measurements of every topic in a piece of the last hour. Raises like `observe`, and
        AnalyticsError for an older piece or too many rows."""
        now_ms = self._clock.now_ms()
        reach_ms = next((reach for reach in _REACHES_MS if reach >= now_ms - period.since_ms), None)
        if reach_ms is None:
            raise AnalyticsError(
                f"{self._topic} is only read one hour back",
                advice="measurements older than an hour require Pinot",
            )
        self._require_times(min(milliseconds, default=math.inf))
        self._look_back(now_ms, _REACHES_MS[0])
        if reach_ms > self._longest_ms:
            self._refuse_too_many(now_ms - reach_ms)
            self._look_back(now_ms, reach_ms)
        return self._rows.past(period, milliseconds)

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics:
        """Return the late records of topics of the sources since that time, at most an hour ago. Raises like
        `observe`."""
        now_ms = self._clock.now_ms()
        self._require_times(least_ms)
        self._look_back(now_ms, min(now_ms - since_ms, LONGEST_SECONDS * 1_000))
        return self._rows.late(sources, since_ms)

    def _require_times(self, least_ms: float) -> None:
        """Keep the times of records that are older than that; read again if they were dropped."""
        if least_ms < self._least_ms:
            self._least_ms = least_ms
            self.close()

    def _look_back(self, now_ms: int, length_ms: int, *, is_new: bool = False) -> None:
        is_past = now_ms - self._looked_ms > min(self._longest_ms, _LONGEST_PAUSE_MS)
        if is_past or length_ms > self._longest_ms:
            self.close()
            self._longest_ms = length_ms
        if is_new or not 0 <= now_ms - self._looked_ms < _ONE_LOOK_MS:
            self._answered.clear()
            for attempt in _passing(self._patience):
                with attempt:
                    self._look(now_ms - self._longest_ms)
            self._looked_ms = now_ms
            self._rows.forget(now_ms, self._longest_ms)

    def close(self) -> None:
        """Close the connection and drop all rows."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._next, self._looked_ms = None, {}, 0
        self._rows = RecentRows(self._least_ms)

    def _refuse_too_many(self, since_ms: int) -> None:
        consumer = self._consumer
        assert consumer is not None, "called after a look"
        try:
            starts = self._starts(consumer, self._next, since_ms)
            rows = sum(self._end(consumer, number) - start for number, start in starts.items())
        except KafkaException as error:
            self.close()
            raise translate(error, f"reading {self._topic}") from error
        if rows > _MOST_ROWS:
            raise AnalyticsError(
                f"{self._topic} has {rows} rows since {since_ms}, more than the limit of {_MOST_ROWS}",
                advice="error budgets of a service of this size require Pinot",
            )

    def _look(self, since_ms: int) -> None:
        try:
            self._read_on(since_ms)
        except KafkaException as error:
            self.close()
            raise translate(error, f"reading {self._topic}") from error
        except TimedOut:
            self.close()
            raise

    def _read_on(self, since_ms: int) -> None:
        if self._consumer is None:
            settings = consumer_settings(self._cluster, "headrace-monitor", "headrace-monitor")
            # Rows deleted by retention are skipped; the end of a partition is reported as an event.
            self._consumer = Consumer(
                settings | {"auto.offset.reset": "earliest", "enable.partition.eof": True}
            )
        consumer = self._consumer
        self._assign_new_partitions(consumer, since_ms)
        ends = {number: self._end(consumer, number) for number in self._next}
        if any(self._next[number] > end for number, end in ends.items()):
            _log.info("metrics topic recreated, reading it again")
            self.close()
            self._read_on(since_ms)
            return
        behind = {number for number, end in ends.items() if self._next[number] < end}
        quiet_since = self._clock.monotonic()
        while behind:
            read = sum(self._next[number] for number in behind)
            for message in consumer.consume(_AT_ONCE, timeout=_WAIT_SECONDS):
                self._take(message)
            is_further = sum(self._next[number] for number in behind) > read
            now = self._clock.monotonic()
            quiet_since = now if is_further else quiet_since
            if now - quiet_since >= self._patience:
                raise TimedOut(f"reading {self._topic}: no messages for {self._patience:.0f} s")
            behind = {number for number in behind if self._next[number] < ends[number]}

    def _assign_new_partitions(self, consumer: Consumer, since_ms: int) -> None:
        described = consumer.list_topics(self._topic, timeout=self._patience).topics[self._topic]
        if described.error is not None:
            raise KafkaException(described.error)
        new = [number for number in described.partitions if number not in self._next]
        if not new:
            return
        self._next.update(self._starts(consumer, new, since_ms))
        consumer.assign([TopicPartition(self._topic, *pair) for pair in self._next.items()])

    def _starts(self, consumer: Consumer, numbers: Collection[int], since_ms: int) -> Mapping[int, int]:
        """Return the offset of the first row since that time, by partition; the end offset if there is no
        such row."""
        starts = {}
        wanted = [TopicPartition(self._topic, number, since_ms) for number in numbers]
        for found in consumer.offsets_for_times(wanted, timeout=self._patience):
            if found.error is not None:
                raise KafkaException(found.error)
            is_newer = found.offset >= 0
            starts[found.partition] = found.offset if is_newer else self._end(consumer, found.partition)
        return starts

    def _end(self, consumer: Consumer, number: int) -> int:
        ends = consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=self._patience)
        if ends is None:
            raise TimedOut(f"no end offset of {self._topic}-{number} within {self._patience:.0f} s")
        return ends[1]

    def _take(self, message: Message) -> None:
        failure, number, offset = message.error(), message.partition(), message.offset()
        assert number is not None
        assert offset is not None
        if failure is not None:
            if failure.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                raise KafkaException(failure)
            self._next[number] = max(self._next[number], offset)  # no records before the end
            return
        self._next[number] = offset + 1
        with Bulkhead(partial(self._note_left_out, number, offset)):
            row = fastavro.schemaless_reader(io.BytesIO(message.value() or b""), self._schema, None)
            assert isinstance(row, dict)
            self._rows.add(row)

    def _note_left_out(self, partition: int, offset: int, error: Exception) -> None:
        """Log the first invalid record."""
        if not self._has_left_out:
            self._has_left_out = True
            _log.warning(
                "invalid measurement records skipped",
                topic=self._topic,
                partition=partition,
                offset=offset,
                reason=str(error) or type(error).__name__,
            )
