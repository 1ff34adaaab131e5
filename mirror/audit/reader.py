"""Reads an offset range of a partition for an audit, independently of the copying code.

The reader fetches batches and parses their headers. The reader decodes a batch only if its records are
needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror.audit.matcher import REPLACED_TIME
from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    scan,
    verify,
)
from mirror.protocol.batches.legacy import last_offset, read_message
from mirror.protocol.batches.records import JOB_PARTS, Record, read_batch
from mirror.protocol.fetch import FetchedPartition

NO_END: Final = 2**62
"""End offset of an offset range without an end."""
_STEP_BYTES: Final = 1024 * 1024
_ABORT_KEY: Final = b"\x00\x00\x00\x00"
"""Key of an abort marker: version 0, type 0."""
_MARKER_BYTES: Final = 4096


def _noted_nowhere(_offsets: int) -> None:
    """Ignore the progress of a read. The default callback."""


async def _unlimited(_bytes: int) -> None:
    """Return at once: the default does not limit the read rate."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offset range [start, end) of a partition to read.

    `committed`: skip aborted transactions. `on_read`: callback that receives the number of offsets read since
    the last call. `pace`: async callback after each fetch, which receives the size of the fetch in bytes.
    """

    cluster: Cluster
    place: TopicPartition
    start: int
    end: int
    committed: bool = True
    on_read: Callable[[int], None] = field(default=_noted_nowhere, compare=False, repr=False)
    pace: Callable[[int], Awaitable[None]] = field(default=_unlimited, compare=False, repr=False)


class StoredBatch(NamedTuple):
    """A stored batch of the log, with the offsets [first, next).

    `header`: None for a message in format 0 or 1.
    """

    data: memoryview
    header: BatchHeader | None
    first: int
    next: int

    @property
    def replaces_time(self) -> bool:
        """True if the broker has replaced the record timestamps (LogAppendTime)."""
        return self.header is not None and bool(self.header.attributes & LOG_APPEND_TIME)

    def payload_bytes(self, records: int) -> int:
        """Return the approximate stored size of `records` records of the batch, without the batch header."""
        if self.header is None:
            return len(self.data)
        return (len(self.data) - HEADER_SIZE) * records // max(self.header.record_count, 1)

    def first_time(self, start: int) -> int:
        """Return the timestamp of the first record at or after an offset.

        Returns the maximum timestamp of the batch if the batch header does not contain the timestamp.
        """
        if self.header is None:
            return self.records(start, self.next)[0].timestamp
        is_first = self.first >= start and not self.replaces_time
        return self.header.base_timestamp if is_first else self.header.max_timestamp

    def records(self, start: int, end: int, *, keeps_append_time: bool = True) -> list[Record]:
        """Decode the batch's records in [start, end). Raises CorruptData, PayloadTooLarge."""
        if self.header is None:
            found = read_message(self.data)
        else:
            found = read_batch(self.data, self.header, most=JOB_PARTS)
        if self.replaces_time and not keeps_append_time:
            return [r._replace(timestamp=REPLACED_TIME) for r in found if start <= r.offset < end]
        return [record for record in found if start <= record.offset < end]


def equal_contents(source: StoredBatch, target: StoredBatch) -> bool:
    """Return whether two batches contain the same bytes. Does not decode records."""
    source_header, target_header = source.header, target.header
    if source_header is None or target_header is None or source.replaces_time or target.replaces_time:
        return False
    return (
        source_header.record_count == target_header.record_count
        and source_header.base_timestamp == target_header.base_timestamp
        and source_header.codec == target_header.codec
        # as bytes, because memoryviews are compared element by element
        and bytes(source.data[HEADER_SIZE:]) == bytes(target.data[HEADER_SIZE:])
    )


class LogCursor:
    """Cursor over the batches of an offset range. Skips control batches and aborted records.

    `step_bytes`: initial size limit of a fetch; a fetch returns at least one batch.
    """

    def __init__(self, log: LogRange, step_bytes: int = _STEP_BYTES) -> None:
        self._log = log
        self.end = log.end
        self.position = log.start
        """Offset after the last batch read."""
        self._batches: list[StoredBatch] = []
        self._requested = -1
        self._bytes = step_bytes

    @property
    def has_batch(self) -> bool:
        """Return whether a fetched batch is buffered."""
        return bool(self._batches)

    @property
    def first(self) -> int:
        """Offset of the next buffered batch, or the read position if no batch is buffered."""
        return self._batches[-1].first if self._batches else self.position

    def extend(self, end: int) -> None:
        """Set a higher end of the range after the log has grown."""
        self.end = max(self.end, end)

    async def peek(self) -> StoredBatch | None:
        """Return the next batch without removing it, or None at the end of the range.

        Raises Unreachable, CorruptData.
        """
        while not self._batches:
            part = await self._next_part()
            if part is None:
                return None
            before = self.position
            self._walk(part)
            self._log.on_read(self.position - before)
        return self._batches[-1]

    def pop(self) -> StoredBatch:
        """Remove and return the next batch. Call `peek` first."""
        return self._batches.pop()

    async def _next_part(self) -> FetchedPartition | None:
        while self.position < self.end:
            if self.position == self._requested:
                self._bytes *= 2  # the batch is larger than the limit of the last fetch
            self._requested = self.position
            cluster = self._log.cluster
            part = await cluster.patiently(self._fetch, topic=self._log.place.topic)
            await self._log.pace(len(part.records))
            if len(part.records):
                return part
            self.position = self.end  # compacted to the end, or an open transaction
        return None

    async def _fetch(self) -> FetchedPartition:
        log = self._log
        return await fetch_once(
            log.cluster, log.place, self.position, committed=log.committed, most_bytes=self._bytes
        )

    def _walk(self, part: FetchedPartition) -> None:
        aborted = _AbortedProducers(part.aborted)
        for start, end, header in scan(part.records):
            data = part.records[start:end]
            first, last = (
                (header.base_offset, header.last_offset)
                if header is not None
                else (self.position, last_offset(data))
            )
            if first >= self.end:
                self.position = self.end
                break
            if last < self.position:
                continue
            self.position = last + 1
            if header is not None:
                verify(data, header)
                if not header.record_count or aborted.hide(data, header, committed=self._log.committed):
                    continue
            self._batches.append(StoredBatch(data, header, first, last + 1))
        self._batches.reverse()


class _AbortedProducers:
    """Producers with aborted transactions, whose batches are skipped up to the abort marker.

    The audit does not use the lane's own filter, so that it can detect errors of this filter.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._first = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._producers: set[int] = set()

    def hide(self, data: memoryview, header: BatchHeader, *, committed: bool) -> bool:
        """Return whether consumers skip the records of the batch, because its transaction was aborted."""
        while self._first and self._first[-1][0] <= header.last_offset:
            self._producers.add(self._first.pop()[1])
        if header.attributes & CONTROL:
            marker = read_batch(data, header, _MARKER_BYTES, 1)
            if marker[0].key == _ABORT_KEY:
                self._producers.discard(header.producer_id)
            return True
        is_aborted = header.attributes & TRANSACTIONAL and header.producer_id in self._producers
        return committed and bool(is_aborted)
