"""Finds the event-time windows of a source log with timestamp lookups. Detects a recreated source topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirror.audit.reader import NO_END, LogCursor, LogRange
from mirror.client.cluster import Cluster
from mirror.lane.progress import LaneProgress
from mirror.model.topics import TopicPartition


class LogWindow(NamedTuple):
    """The event-time window that contains a given record.

    `edge`: offset of the first record of a later window, `NO_END` if there is none. `batch_end`: offset after
    the batch that contains the record.
    """

    start_ms: int
    edge: int
    batch_end: int


async def first_window(log: LogRange, length_ms: int, now_ms: int) -> LogWindow | None:
    """Return the window with the first record of a range, or None without records. Raises Unreachable."""
    first = await LogCursor(log, step_bytes=1).peek()
    if first is None:
        return None
    timestamp = first.first_time(log.start)
    timestamp = timestamp if timestamp >= 0 else now_ms
    start_ms = timestamp - timestamp % length_ms
    edge = (await log.cluster.offsets({log.place: start_ms + length_ms}))[log.place]
    return LogWindow(start_ms, NO_END if edge.error or edge.offset < 0 else edge.offset, first.next)


class LogWindows(NamedTuple):
    """Finds the event-time windows of records in several logs with few requests.

    `starts_ms`: start of the previous window of each log. `offsets`: offset of the record in each log.
    """

    length_ms: int
    starts_ms: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]

    async def read(self, source: Cluster) -> Mapping[TopicPartition, tuple[int, int]]:
        """Map each log to the start of its record's window, and the offset where the next window begins.

        The offset is `NO_END` if there is no later window. A log whose timestamps are out of order can be
        missing from the result. Raises Unreachable.
        """
        found, starts_ms = dict[TopicPartition, tuple[int, int]](), self.starts_ms
        for _ in range(2):
            ended = dict[TopicPartition, int]()
            ends_ms = {place: start_ms + self.length_ms for place, start_ms in starts_ms.items()}
            for place, answer in (await source.offsets(ends_ms)).items():
                if not answer.error:
                    edge = NO_END if answer.offset < 0 else answer.offset
                    if edge > self.offsets[place]:
                        found[place] = starts_ms[place], edge
                    elif edge == self.offsets[place] and answer.timestamp_ms >= 0:  # in a later window
                        ended[place] = answer.timestamp_ms - answer.timestamp_ms % self.length_ms
            starts_ms = ended
        return found


def is_other_topic(topic_id: bytes, progress: LaneProgress) -> bool:
    """Return whether the topic id shows that the source topic was recreated after the copy began. Returns
    False for clusters without topic ids."""
    copied = progress.source.topic_id
    return bool(topic_id and copied and topic_id != copied)
