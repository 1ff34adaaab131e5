"""Writes records to one topic from a bounded queue.

A record that cannot be written in time is dropped.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.system_clock import SystemClock
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, TopicMissing, Unexpected, Unreachable
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record

_log = get_logger(__name__)
_T = TypeVar("_T")
_LINGER_SECONDS: Final = 0.05
_PAUSE_SECONDS: Final = 0.25
"""Seconds between two attempts to write."""
_LOOK_AGAIN_SECONDS: Final = 300.0
"""Seconds between refreshes of the topic's partition count, which may increase."""
_BATCH_BYTES: Final = 512 * 1024
QUEUE_BYTES: Final = 8 * 1024 * 1024
_RECORD_BYTES: Final = 200
"""Additional memory of a queued record, in bytes."""


@dataclass(frozen=True)
class DeliveryCalls:
    """Callbacks of a record writer, called on the thread of the event loop.

    `delivered`: called after all replicas have stored a batch. `dropped`: called with the number of dropped
    records and the reason.
    """

    delivered: Callable[[], None]
    dropped: Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class _PendingRecord:
    record: Record
    size: int
    until: float


class RecordWriter:
    """Thread-safe writer to one topic. The CRC-32 of the key determines the partition, as in librdkafka."""

    def __init__(
        self, loop: LoopThread, session: ClusterSession, topic: str, seconds: float, calls: DeliveryCalls
    ) -> None:
        self._loop = loop
        self._session = session
        self._topic = topic
        self._seconds = seconds
        self._calls = calls
        self._lock = threading.Lock()
        self._is_empty = threading.Condition(self._lock)
        self._clock = SystemClock()
        self._waiting: deque[_PendingRecord] = deque()
        self._held = 0
        self._count = 0
        self._is_closed = False
        self._is_posted = False
        self._partitions: dict[int, deque[_PendingRecord]] = {}
        self._writing: set[int] = set()
        self._looked_at = 0.0

    def put(self, record: Record) -> bool:
        """Queue a record; its offset is ignored. Return False if the queue is full."""
        size = len(record.key or b"") + len(record.value or b"") + _RECORD_BYTES
        entry = _PendingRecord(record, size, self._clock.monotonic() + self._seconds)
        with self._lock:
            if self._held + size > QUEUE_BYTES:
                return False
            self._held += size
            self._count += 1
            self._waiting.append(entry)
            is_first, self._is_posted = not self._is_posted, True
        if is_first:
            self._loop.post(lambda loop: loop.call_later(_LINGER_SECONDS, lambda: self._begin(loop)))
        return True

    def close(self, deadline_seconds: float) -> int:
        """Wait until the deadline for queued records to be written. Return the number of unwritten
        records."""
        with self._is_empty:
            self._is_empty.wait_for(lambda: not self._count, deadline_seconds)
            left, self._is_closed = self._count, True
        self._loop.post(lambda _: self._session.close())
        return left

    def _begin(self, loop: Loop) -> None:
        loop.spawn(self._distribute(loop))

    async def _distribute(self, loop: Loop) -> None:
        """Assign queued records to partitions until the queue is empty. Only one call runs at a time."""
        entries: deque[_PendingRecord] = deque()
        while True:
            self._take(entries)
            if not entries or self._is_closed:
                return
            try:
                count = await self._ask(loop, lambda cluster: self._count_partitions(loop, cluster))
            except HeadraceError as error:
                await self._pause(loop, entries, error)
                continue
            for entry in entries:
                number = zlib.crc32(entry.record.key or b"") % count
                self._partitions.setdefault(number, deque()).append(entry)
            entries.clear()
            for number in self._partitions.keys() - self._writing:
                self._writing.add(number)
                loop.spawn(self._write(loop, number))

    def _take(self, entries: deque[_PendingRecord]) -> None:
        with self._lock:
            entries.extend(self._waiting)
            self._waiting.clear()
            self._is_posted = bool(entries)

    async def _count_partitions(self, loop: Loop, cluster: Cluster) -> int:
        known = cluster.topics.get(self._topic)
        if known is None or known.error or loop.now() - self._looked_at > _LOOK_AGAIN_SECONDS:
            await cluster.refresh([self._topic])
            known, self._looked_at = cluster.topics[self._topic], loop.now()
        if known.error:
            doing = f"cannot read metadata of topic {self._topic} of {cluster.name}"
            raise cluster.error(known.error, doing, f"Write on topic {self._topic}")
        if not known.leaders:
            raise Unreachable(f"topic {self._topic} of {cluster.name} has no partitions yet")
        return len(known.leaders)

    async def _ask(self, loop: Loop, question: Callable[[Cluster], Coroutine[Any, Any, _T]]) -> _T:
        try:
            return await self._session.ask(loop, question)
        except HeadraceError:
            raise
        except Exception as error:
            _log.exception("cannot write records", topic=self._topic)
            raise Unexpected(f"unexpected {type(error).__name__}: {error}") from error

    async def _write(self, loop: Loop, number: int) -> None:
        """Write the records of one partition, batch by batch, until no record remains."""
        entries = self._partitions[number]
        place = TopicPartition(self._topic, number)
        while entries and not self._is_closed:
            part = _first_of(entries)
            batch = write_batch([entry.record for entry in part], Codec.LZ4)
            try:
                await self._ask(loop, partial(write_patiently, place=place, batch=batch))
            except HeadraceError as error:
                await self._pause(loop, entries, error, len(part))
                continue
            for _ in part:
                entries.popleft()
            self._release(part)
            self._calls.delivered()
        del self._partitions[number]
        self._writing.discard(number)

    async def _pause(
        self, loop: Loop, entries: deque[_PendingRecord], error: HeadraceError, refused: int | None = None
    ) -> None:
        """Drop the expired or rejected records of a partition after a failed write, then pause.

        `refused`: number of rejected records at the front; None means all.
        """
        may_pass = error.retriable or isinstance(error, TopicMissing)
        if may_pass:
            now = loop.now()
            lost = [entry for entry in entries if entry.until <= now]
        else:
            lost = list(entries)[:refused]
        for _ in lost:  # ordered by expiry
            entries.popleft()
        if lost:
            self._calls.dropped(len(lost), error.message)
            self._release(lost)
        if entries:
            wait = min(_PAUSE_SECONDS, entries[0].until - loop.now())
            await loop.sleep(max(wait, 0.0))

    def _release(self, entries: Sequence[_PendingRecord]) -> None:
        with self._is_empty:
            self._held -= sum(entry.size for entry in entries)
            self._count -= len(entries)
            if not self._count:
                self._is_empty.notify_all()


def _first_of(entries: deque[_PendingRecord]) -> list[_PendingRecord]:
    """Return the first queued records that fit into one batch."""
    part: list[_PendingRecord] = []
    size = 0
    for entry in entries:
        if part and size + entry.size > _BATCH_BYTES:
            break
        part.append(entry)
        size += entry.size
    return part
