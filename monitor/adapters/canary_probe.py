"""Writes and reads the records of one canary with Headrace's own Kafka client.

The canary topic has one partition, and the settings in `TOPIC_SETTINGS`. A probe has an id, so that several
probes can share a topic, for example those of two leaders and of a release gate. Writes are not retried,
because a retry could write a record twice, which would look like a fault of the mirror.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.kafka.topic_client import create_missing
from mirror.adapters.settings import KafkaCluster
from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.log_reader import FetchWait, fetch_part, partition_offsets
from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, TopicMissing, Unreachable
from mirror.lane.rules import AbortedFilter
from mirror.loggers import get_logger
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.batches.batch import scan, verify
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.codes import MISSING, TRANSIENT, Code, name_of
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.fetch import FetchedPartition, FetchPosition
from monitor.canary.ledger import EXPIRY_SECONDS, CanaryFigures, CanaryLedger

_log = get_logger(__name__)
_T = TypeVar("_T")
TOPIC_SETTINGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(int(EXPIRY_SECONDS * 1_000)),
    "segment.bytes": str(16 * 1024 * 1024),
}
INTERVAL_SECONDS: Final = 1.0
_CLIENT_ID: Final = "headrace-canary"
_REQUEST_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 1.0
_STEP_BYTES: Final = 1024 * 1024
_WAIT: Final = FetchWait(500, "canary")


@dataclass(frozen=True, slots=True)
class CanaryEnd:
    """One end of a canary's path: the cluster and the topic of its records at the source or the
    destination."""

    cluster: KafkaCluster
    topic: str

    @property
    def place(self) -> TopicPartition:
        """Partition of the canary topic."""
        return TopicPartition(self.topic, 0)


class CanaryProbe:
    """Writes and reads canary records on the event loop. Any thread may read `figures` and `problem`."""

    def __init__(self, source: CanaryEnd, destination: CanaryEnd, loop: LoopThread) -> None:
        self._source = source
        self._destination = destination
        self._loop = loop
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._ledger = CanaryLedger()
        self._now: Callable[[], float] = lambda: 0.0
        self._writing, self._reading = _session(source.cluster), _session(destination.cluster)
        self._position: int | None = None
        self._is_prepared = False
        self._is_writing = self._is_reading = True
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """Reason why records currently cannot be written or read; empty if they can."""
        return "; ".join(self._problems.values())

    def start(self) -> None:
        """Start writing and reading canary records."""
        self._loop.post(self._begin)

    def end_writing(self) -> None:
        """Stop writing canary records. Reading continues."""
        self._is_writing = False

    def stop(self) -> None:
        """Stop the canary, and close its connections in the background. Idempotent."""
        self._is_writing = self._is_reading = False
        self._loop.post(lambda _: self._writing.close())
        self._loop.post(lambda _: self._reading.close())

    def figures(self) -> CanaryFigures:
        """Return the current results of the canary."""
        with self._lock:
            return self._ledger.figures(self._now())

    def _begin(self, loop: Loop) -> None:
        self._now = loop.now
        loop.spawn(self._run(loop))

    async def _run(self, loop: Loop) -> None:
        """Write and read canary records until the canary is stopped.

        The end of the destination topic is read before the first write, so that no record is missed.
        """
        await self._try(loop, self._writing, self._created, repeats=True)
        while self._is_reading and self._position is None:
            await self._try(loop, self._reading, self._find_end)
            if self._position is None:
                await loop.sleep(_PAUSE_SECONDS)
        loop.spawn(self._read(loop))
        await self._write(loop)

    async def _write(self, loop: Loop) -> None:
        due = loop.now()
        while self._is_writing:
            with self._lock:
                index = self._ledger.attempt(loop.now())
            is_written = await self._try(loop, self._writing, partial(self._write_record, loop, index))
            with self._lock:
                (self._ledger.acknowledged if is_written else self._ledger.failed)(index, loop.now())
            due = max(due + INTERVAL_SECONDS, loop.now())
            await loop.sleep(due - loop.now())

    async def _read(self, loop: Loop) -> None:
        while self._is_reading:
            if not await self._try(loop, self._reading, partial(self._read_records, loop)):
                await loop.sleep(_PAUSE_SECONDS)

    async def _try(
        self,
        loop: Loop,
        session: ClusterSession,
        step: Callable[[Cluster], Coroutine[Any, Any, None]],
        *,
        repeats: bool = False,
    ) -> bool:
        """Run one step of the canary, and return whether it succeeded. `repeats`: retry transient errors for
        some seconds."""
        side = "source" if session is self._writing else "destination"

        async def once(cluster: Cluster) -> HeadraceError | None:
            try:
                await step(cluster)
            except HeadraceError as error:
                if repeats:
                    raise
                return error
            return None

        error: Exception | None = None
        with Bulkhead() as bulkhead:
            error = await session.ask(loop, once)
        error = bulkhead.failure or error
        if error is not None and not isinstance(error, HeadraceError):  # a defect
            _log.error("the canary failed", topic=self._source.topic, side=side, exc_info=error)
        if error is None:
            self._problems.pop(side, None)
            return True
        reason = reason_of(error)
        if self._is_reading and self._problems.get(side) != reason:
            _log.info("the canary is interrupted", topic=self._source.topic, side=side, reason=reason)
        self._problems[side] = reason
        return False

    async def _created(self, cluster: Cluster) -> None:
        await create_missing(cluster, TopicDescription(self._source.topic, 1, settings=TOPIC_SETTINGS))
        self._is_prepared = True

    async def _write_record(self, loop: Loop, index: int, cluster: Cluster) -> None:
        if not self._is_prepared or cluster.leader(self._source.place) is None:
            await self._created(cluster)
        now_ms = loop.clock.now_ms()
        fields = {"producerId": self._id, "index": index, "time": now_ms, "topic": self._source.topic}
        value = json.dumps(fields, separators=(",", ":")).encode()
        batch = write_batch([Record(0, now_ms, self._id.encode(), value)])
        try:
            await write_patiently(cluster, self._source.place, batch, seconds=0.0)
        except HeadraceError:
            self._is_prepared = False  # the topic or its leader may have changed
            raise

    async def _find_end(self, cluster: Cluster) -> None:
        """Start reading at the end of the destination's log, or at 0 if the topic does not exist yet."""
        place = self._destination.place
        await cluster.refresh([place.topic])
        if cluster.topics[place.topic].error in MISSING:
            self._position = 0
        else:
            self._position = (await partition_offsets(cluster, [place], LATEST))[place]

    async def _read_records(self, loop: Loop, cluster: Cluster) -> None:
        place, offset = self._destination.place, self._position or 0
        position = FetchPosition(-1, offset, -1, _STEP_BYTES)
        part = await fetch_part(cluster, place, position, committed=True, wait=_WAIT)
        if part.error == Code.OFFSET_OUT_OF_RANGE:  # created again, or expired
            self._position = (await partition_offsets(cluster, [place], EARLIEST))[place]
            return
        if part.error:
            await cluster.refresh([place.topic])
            if part.error in MISSING:
                raise TopicMissing(f"topic {place.topic} of {cluster.name} does not exist")
            if part.error in TRANSIENT:
                raise Unreachable(f"cannot read {place}: broker returned {name_of(part.error)}")
            raise cluster.error(part.error, f"cannot read {place}", f"Read on topic {place.topic}")
        self._take(part, loop.now())

    def _take(self, part: FetchedPartition, now: float) -> None:
        aborted, position = AbortedFilter(part.aborted), self._position or 0
        for start, end, header in scan(part.records):
            if header is None or header.last_offset < position:
                continue
            batch = part.records[start:end]
            verify(batch, header)
            if aborted.offset_class(batch, header) is None:
                records = [record for record in read_batch(batch, header) if record.offset >= position]
                with self._lock:
                    for index in self._indices(records):
                        self._ledger.arrived(index, now)
            position = header.last_offset + 1
        self._position = position

    def _indices(self, records: list[Record]) -> Iterator[int]:
        """Yield the index in each record that this probe wrote. Records of other probes are ignored."""
        for record in records:
            if record.key != self._id.encode():
                continue
            try:
                index = json.loads(record.value or b"")["index"]
            except (ValueError, KeyError, TypeError):
                continue  # not written by a probe
            if isinstance(index, int):
                yield index


def _session(cluster: KafkaCluster) -> ClusterSession:
    return ClusterSession(
        cluster.bootstrap_servers,
        _CLIENT_ID,
        partial(usable_access, cluster),
        request_seconds=_REQUEST_SECONDS,
    )
