"""Follows a partition: waits for new records, and detects lost records and a recreated topic."""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.log_reader import FetchWait, fetch_part
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import CONTROL, scan, verify
from mirror.protocol.batches.legacy import last_offset
from mirror.protocol.batches.records import read_batch
from mirror.protocol.codes import TRANSIENT, Code, name_of
from mirror.protocol.fetch import FetchedPartition, FetchPosition

_STEP_BYTES: Final = 4 * 1024 * 1024
_WAIT: Final = FetchWait(500, "tail")


class LogRecord(NamedTuple):
    """A record of the log topic.

    `value`: empty if the record has a format that this store never writes.
    """

    offset: int
    value: bytes | None


class ReadRecords(NamedTuple):
    """Log records in offset order. `size`: total size of the records in bytes."""

    records: tuple[LogRecord, ...]
    size: int


class LogDiscontinued(Exception):
    """Raised when the log no longer continues at the next offset to read.

    The caller must load a snapshot, and then read the log after it.
    """


class LogTail:
    """Reader that follows one partition. Use only on the event loop's thread."""

    def __init__(self, cluster: Cluster, place: TopicPartition, offset: int) -> None:
        self._cluster = cluster
        self._place = place
        self._topic_id = cluster.topic_id(place.topic)
        self._epoch = -1
        self._position = offset

    async def read(self) -> ReadRecords:
        """Return the next records of the log. The result is empty if no record arrives within the fetch wait
        time. Raises LogDiscontinued, Unreachable, and the errors for error codes of the broker."""
        position = FetchPosition(-1, self._position, self._epoch, _STEP_BYTES)
        part = await fetch_part(self._cluster, self._place, position, committed=False, wait=_WAIT)
        if part.error in TRANSIENT:
            await self._refresh()
            raise Unreachable(f"cannot read {self._place}: broker returned {name_of(part.error)}")
        if part.error == Code.OFFSET_OUT_OF_RANGE:
            raise LogDiscontinued(f"{self._place} no longer has offset {self._position}")
        if part.error:
            doing = f"cannot read {self._place} of {self._cluster.name} at offset {self._position}"
            raise self._cluster.error(part.error, doing, f"Read on topic {self._place.topic}")
        if part.diverging is not None:
            raise LogDiscontinued(f"{self._place} has lost records before offset {self._position}")
        return self._taken(part)

    async def _refresh(self) -> None:
        """Find the new leader of the partition. Raises LogDiscontinued if the topic was recreated."""
        await self._cluster.refresh([self._place.topic])
        found = self._cluster.topic_id(self._place.topic)
        if found and self._topic_id and found != self._topic_id:
            raise LogDiscontinued(f"topic {self._place.topic} was recreated")

    def _taken(self, part: FetchedPartition) -> ReadRecords:
        records, position, epoch = list[LogRecord](), self._position, self._epoch
        for start, end, header in scan(part.records):
            batch = part.records[start:end]
            if header is None:
                following = last_offset(batch) + 1
                records.append(LogRecord(following - 1, b""))
            else:
                verify(batch, header)
                following = header.last_offset + 1
                epoch = max(epoch, header.leader_epoch)
                if not header.attributes & CONTROL:
                    records += [
                        LogRecord(record.offset, record.value) for record in read_batch(batch, header)
                    ]
            position = max(position, following)
        self._position, self._epoch = position, epoch
        return ReadRecords(tuple(records), len(part.records))
