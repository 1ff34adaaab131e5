"""Progress of lanes in a compacted topic of the destination cluster.

Read on demand by new owners: the first look scans the topic, later ones only what came since. The reader
decides by itself which transactional records count (those whose marker it has seen), because the last
stable offset of the topic is held back by transactions of lanes that do not matter here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mirror.copying.cluster import Cluster
from mirror.copying.log_reader import Stretch
from mirror.copying.log_writer import write_patiently
from mirror.copying.loop import Promise
from mirror.errors import Unreachable
from mirror.lane.progress import Entry, LaneProgress, main_key, read_progress
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.ports import LaneKey
from mirror.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader
from mirror.wire.codes import Code, error_of
from mirror.wire.control.offsets import EARLIEST, LATEST
from mirror.wire.control.topics import create_topic
from mirror.wire.records import Record, read_batch, write_batch

PARTITIONS: Final = 8
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "600000",
    "compression.type": "producer",
}
_BATCH_BYTES: Final = 512 * 1024
_COMMIT_MARKER: Final = 1
_MAIN_PARTS: Final = 3
"""Parts of the key of a main record: group, topic, partition."""


class ProgressLog:
    """The progress topic of one destination cluster."""

    def __init__(self, cluster: Cluster, topic: str, replication: int = -1) -> None:
        self.topic = topic
        self._cluster = cluster
        self._replication = replication
        self._values: dict[bytes, bytes] = {}
        self._read_up_to: dict[int, int] = {}
        self._open: dict[tuple[int, int], list[Entry]] = {}
        self._reading: Promise[None] | None = None

    async def load(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, LaneProgress | None]:
        """What is stored of each lane. Raises Unreachable, CorruptData, NewerFormat."""
        await self.catch_up()
        return {key: read_progress(key, self._values) for key in keys}

    async def catch_up(self) -> None:
        """Read what was written since the last look."""
        while self._reading is not None and not self._reading.is_done:
            await self._reading  # it may have looked before what we want to see was written
        self._reading = self._cluster.loop.spawn(self._catch_up())
        await self._reading

    async def save(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write; returns when all replicas have it. Entries of one lane stay together in one batch.

        Raises Unreachable, NotAuthorized.
        """
        if not entries:
            return
        await self.ensure()
        by_partition: dict[int, list[Entry]] = {}
        for entry in entries:
            by_partition.setdefault(self.partition_of(entry[0]), []).append(entry)
        await self._cluster.loop.together(
            self._save(number, part, now_ms) for number, part in by_partition.items()
        )

    async def forget(self, keys: Sequence[LaneKey], now_ms: int) -> None:
        """Remove everything that is stored of these lanes. Raises Unreachable."""
        await self.catch_up()
        mains = {main_key(key) for key in keys}
        gone: list[Entry] = [
            (stored, None) for stored in self._values if b"/".join(stored.split(b"/")[:3]) in mains
        ]
        await self.save(gone, now_ms)

    def groups(self) -> set[str]:
        """Everybody who has stored something, as far as it was read."""
        return {key.split(b"/", 1)[0].decode() for key in self._values}

    def keys_of(self, group: GroupName) -> list[LaneKey]:
        """The lanes of a group that have stored something, sorted, as far as it was read."""
        parts = [key.decode().split("/") for key in self._values]
        return sorted(
            LaneKey(group, TopicPartition(part[1], int(part[2])))
            for part in parts
            if len(part) == _MAIN_PARTS and part[0] == group
        )

    def partition_of(self, key: bytes) -> int:
        """Where records of a lane go: all keys of a lane to the partition of its main key."""
        main = b"/".join(key.split(b"/")[:3])
        topic = self._cluster.topics[self.topic]
        return zlib.crc32(main) % len(topic.leaders)

    async def ensure(self) -> None:
        """Make the topic when it is not there. Raises Unreachable, NotAuthorized, Refused."""
        known = self._cluster.topics.get(self.topic)
        if known is not None and not known.error and known.leaders:
            return
        await self._cluster.patiently(self._create)

    async def _create(self) -> None:
        await self._cluster.refresh([self.topic])
        topic = self._cluster.topics[self.topic]
        if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            call = create_topic(self.topic, PARTITIONS, self._replication, SETTINGS)
            outcome = await self._cluster.ask_controller(call)
            if outcome.error not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                raise error_of(outcome.error, f"creating topic {self.topic}", outcome.message)
            raise Unreachable(f"topic {self.topic} was just created")
        if topic.error or any(leader < 0 for leader, _ in topic.leaders):
            raise Unreachable(f"topic {self.topic} has partitions without a leader")

    async def _catch_up(self) -> None:
        await self.ensure()
        numbers = range(len(self._cluster.topics[self.topic].leaders))
        ends = await self._cluster.offsets({TopicPartition(self.topic, number): LATEST for number in numbers})
        for place, answer in ends.items():
            if answer.error:
                raise error_of(answer.error, f"looking for the end of {place}")
        await self._cluster.loop.together(self._read(place, end.offset) for place, end in ends.items())

    async def _read(self, place: TopicPartition, end: int) -> None:
        start = self._read_up_to.get(place.partition)
        if start is None or start > end:
            start = (await self._cluster.offsets({place: EARLIEST}))[place].offset
        stretch = Stretch(self._cluster, place, max(start, 0), end)
        async for batch, header in stretch.batches():
            if header is not None:
                self._take(place.partition, batch, header)
            self._read_up_to[place.partition] = stretch.position
        self._read_up_to[place.partition] = max(stretch.position, end)

    def _take(self, number: int, batch: memoryview, header: BatchHeader) -> None:
        records = read_batch(batch, header)
        writer = (number, header.producer_id)
        if header.attributes & CONTROL:
            written = self._open.pop(writer, [])
            key = records[0].key if records else None
            if key is not None and int.from_bytes(key[2:4], "big") == _COMMIT_MARKER:
                self._apply(written)
            return
        entries = [(record.key, record.value) for record in records if record.key is not None]
        if header.attributes & TRANSACTIONAL:
            self._open.setdefault(writer, []).extend(entries)
        else:
            self._apply(entries)

    def _apply(self, entries: Iterable[Entry]) -> None:
        for key, value in entries:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    async def _save(self, number: int, entries: Sequence[Entry], now_ms: int) -> None:
        for batch in batches_of(entries, now_ms):
            await write_patiently(self._cluster, TopicPartition(self.topic, number), batch)


def batches_of(entries: Sequence[Entry], now_ms: int) -> list[bytearray]:
    """Records in as few batches as possible; entries of one lane are never parted."""
    groups: list[list[Record]] = [[]]
    size = 0
    for key, value in entries:
        size += len(key) + len(value or b"")
        groups[-1].append(Record(0, now_ms, key, value))
        if size > _BATCH_BYTES and b"/map/" not in key:
            groups.append([])
            size = 0
    return [write_batch(group) for group in groups if group]
