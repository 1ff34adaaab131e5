"""Progress of lanes in a compacted topic of the destination cluster.

Read on demand by new owners: the first look scans the topic, later ones only what came since. Only what is
stored of the lanes that were asked for stays in memory, since the topic holds that of every lane there is;
lanes that are asked for later cost one more scan of their partitions. The reader
decides by itself which transactional records count (those whose marker it has seen), because the last
stable offset of the topic is held back by transactions of lanes that do not matter here.

A lane's records stay in the partition where they were found, also after partitions were added to the topic.
A topic that deletes old records is refused: a lane without progress would start again.
"""

from __future__ import annotations

import logging
import zlib
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Promise
from mirror.client.log_reader import PartitionRange
from mirror.client.log_writer import write_patiently
from mirror.errors import CorruptData, HeadraceError, NotAuthorized, Unreachable, UnsafeProgressTopic
from mirror.lane.progress import Entry, LaneProgress, is_outdated, main_key, read_progress, written_at
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import CONTROL, TRANSACTIONAL, BatchHeader
from mirror.protocol.batches.records import Record, read_batch, write_batch
from mirror.protocol.codes import TRANSIENT, Code, error_of
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.topics import create_topic, describe_settings

PARTITIONS: Final = 8
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "600000",
    "compression.type": "producer",
    "message.timestamp.type": "LogAppendTime",  # so that acknowledgements say what time it is at brokers
}
_log = logging.getLogger(__name__)
_BATCH_BYTES: Final = 512 * 1024
_LARGEST_BATCH: Final = 16 * 1024 * 1024
"""Of payload; ours are much smaller."""
_COMMIT_MARKER: Final = 1
_CHECK_SECONDS: Final = 60.0
_MAIN_PARTS: Final = 3
"""Parts of the key of a main record: group, topic, partition."""


class ProgressLog:
    """The progress topic of one destination cluster."""

    def __init__(self, cluster: Cluster, topic: str, replication: int = -1) -> None:
        self.topic = topic
        self._cluster = cluster
        self._replication = replication
        self._parts: dict[int, ProgressPart] = {}
        self._wanted: set[bytes] = set()
        self._unseen: set[bytes] = set()
        self._keeps_all = False
        self._reading: Promise[None] | None = None
        self._places: dict[bytes, int] = {}
        self._counts: set[int] = set()
        self._reported_count = 0
        self._cluster_id = ""
        self._checked_at = -inf
        self.problem: UnsafeProgressTopic | None = None
        """Why the topic may lose progress, as of the last look at its settings."""

    async def require_safe(self) -> None:
        """Raise UnsafeProgressTopic if the topic exists and may lose progress. Raises Unreachable."""
        await self._cluster.patiently(lambda: self._cluster.refresh([self.topic]))
        if self.exists:
            await self._check_settings()
        if self.problem is not None:
            raise self.problem

    @property
    def exists(self) -> bool:
        """Return whether the topic existed at the last look at it."""
        known = self._cluster.topics.get(self.topic)
        return known is not None and not known.error

    async def load(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, LaneProgress | None]:
        """What is stored of each lane. Raises Unreachable, CorruptData, NewerFormat, UnsafeProgressTopic."""
        await self.catch_up(keys)
        return {key: self.stored(key) for key in keys}

    def stored(self, key: LaneKey) -> LaneProgress | None:
        """What was stored of a lane at the last look for it. Raises CorruptData, NewerFormat."""
        holders = self._holders(main_key(key))
        return read_progress(key, ChainMap(*(self._parts[number].values for number in holders)))

    @property
    def is_damaged(self) -> bool:
        """Whether a batch was unreadable: a lane without progress may have had some in it."""
        return any(part.is_damaged for part in self._parts.values())

    def want(self, keys: Iterable[LaneKey]) -> None:
        """From the next look on keep what is stored of these lanes."""
        if not self._keeps_all:
            self._unseen.update({main_key(key) for key in keys} - self._wanted)

    def release(self, key: LaneKey) -> None:
        """Keep nothing of the lane any more."""
        main = main_key(key)
        self._places.pop(main, None)
        self._unseen.discard(main)
        if main in self._wanted:
            self._wanted.discard(main)
            for part in self._parts.values():
                part.forget(main)

    async def read_all(self) -> None:
        """Keep what is stored of every lane; for commands that look at all of them."""
        self._keeps_all = True
        self._parts.clear()
        await self.catch_up()

    async def catch_up(self, keys: Iterable[LaneKey] = ()) -> None:
        """Read what was written since the last look, and what is stored of these lanes."""
        self.want(keys)
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
        try:
            await self._check_settings()
        except HeadraceError as error:  # the progress is stored; the next write checks again
            _log.debug("the settings of topic %s are unknown: %s", self.topic, error)

    async def forget(self, keys: Sequence[LaneKey], now_ms: int) -> None:
        """Remove everything that is stored of these lanes. Raises Unreachable."""
        await self.catch_up(keys)
        mains = {main_key(key) for key in keys}
        gone: dict[int, list[Entry]] = {
            number: [(stored, None) for stored in part.values if _main_of(stored) in mains]
            for number, part in self._parts.items()
        }
        await self._cluster.loop.together(
            self._save(number, entries, now_ms) for number, entries in gone.items() if entries
        )

    def groups(self) -> set[str]:
        """Groups with stored progress, as far as it was read and kept."""
        return {key.split(b"/", 1)[0].decode(errors="replace") for key in self._keys()}

    def keys_of(self, group: GroupName) -> list[LaneKey]:
        """The lanes of a group that have stored something, sorted, as far as it was read."""
        parts = [key.decode(errors="replace").split("/") for key in self._keys()]
        return sorted(
            {
                LaneKey(group, TopicPartition(part[1], int(part[2])))
                for part in parts
                if len(part) == _MAIN_PARTS and part[0] == group and part[2].isdecimal()
            }
        )

    def _keys(self) -> list[bytes]:
        return [key for part in self._parts.values() for key in part.values]

    def partition_of(self, key: bytes) -> int:
        """Return where records of a lane go: all to the partition that has its main record, and those of a
        new lane to one by the hash of its main key."""
        main = _main_of(key)
        if main not in self._places:
            holders = self._holders(main)
            self._places[main] = holders[0] if holders else zlib.crc32(main) % self._count
        return self._places[main]

    @property
    def _count(self) -> int:
        return len(self._cluster.topics[self.topic].leaders)

    def _holders(self, main: bytes) -> list[int]:
        """Partitions with a main record of the lane, the newest record first."""
        found = [number for number, part in self._parts.items() if main in part.values]
        if len(found) > 1:
            found.sort(key=lambda number: written_at(self._parts[number].values[main]), reverse=True)
        return found

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
                raise self._with_rights(outcome.error, "creating", outcome.message)
            raise Unreachable(f"topic {self.topic} was just created")
        if topic.error and topic.error not in TRANSIENT:
            raise self._with_rights(topic.error, "looking at")
        if topic.error or any(leader < 0 for leader, _ in topic.leaders):
            raise Unreachable(f"topic {self.topic} has partitions without a leader")

    def _with_rights(self, code: int, doing: str, message: str = "") -> HeadraceError:
        error = error_of(code, f"{doing} topic {self.topic} on {self._cluster.name}", message)
        if isinstance(error, NotAuthorized):
            error.advice = (
                f"grant Create, Read and Write on topic {self.topic}, or create it and grant the others"
            )
        return error

    async def _check_settings(self) -> None:
        """Look at the topic's settings, at most once a minute; they are unknown without the right."""
        now = self._cluster.loop.now()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        found = await self._cluster.ask(describe_settings([self.topic]))
        self._checked_at = now
        policy = found.get(self.topic, {}).get("cleanup.policy")
        before, self.problem = self.problem, None
        if policy is not None and "delete" in policy.value:
            self.problem = UnsafeProgressTopic(
                f"topic {self.topic} of {self._cluster.name} has cleanup.policy={policy.value}: it deletes"
                " checkpoints with time",
                advice="set cleanup.policy=compact on it",
            )
            if before is None:
                _log.error("%s", self.problem)

    async def _catch_up(self) -> None:
        await self.ensure()
        if self.problem is not None:
            self._checked_at = -inf  # it may have been mended
        await self._check_settings()
        if self.problem is not None:
            raise self.problem
        self._forget_other_cluster()
        count = self._count
        self._counts.add(count)
        numbers = range(count)
        ends = await self._cluster.offsets({TopicPartition(self.topic, number): LATEST for number in numbers})
        for place, answer in ends.items():
            if answer.error:
                raise error_of(answer.error, f"looking for the end of {place}")
        unseen, self._unseen = self._unseen, set()
        self._wanted |= unseen
        again = set(numbers) if unseen and self._is_grown else {zlib.crc32(main) % count for main in unseen}
        try:
            await self._cluster.loop.together(
                self._read(place, end.offset, again=place.partition in again) for place, end in ends.items()
            )
        except HeadraceError:
            self._wanted -= unseen
            self._unseen |= unseen
            raise
        self._report_growth()

    @property
    def _is_grown(self) -> bool:
        """Whether partitions were added since lanes first stored their progress."""
        return len(self._counts) > 1 or any(part.is_scattered for part in self._parts.values())

    def _report_growth(self) -> None:
        if self._is_grown and self._reported_count != self._count:
            self._reported_count = self._count
            _log.warning(
                "topic %s of %s has %d partitions, more than when progress was stored: lanes keep theirs"
                " where it is, and each that starts reads all partitions",
                self.topic,
                self._cluster.name,
                self._count,
            )

    def _forget_other_cluster(self) -> None:
        """Drop what was read if another cluster has been accepted since."""
        if self._cluster_id not in ("", self._cluster.cluster_id):
            self._parts.clear()
            self._places.clear()
            self._counts.clear()
        self._cluster_id = self._cluster.cluster_id

    async def _read(self, place: TopicPartition, end: int, *, again: bool) -> None:
        part = self._parts.get(place.partition)
        if part is None or again or part.read_up_to > end:
            first = (await self._cluster.offsets({place: EARLIEST}))[place].offset
            wanted = None if self._keeps_all else self._wanted
            part = ProgressPart(wanted, max(first, 0), (place.partition, self._count))
        span = PartitionRange(self._cluster, place, part.read_up_to, end, on_damage=part.note_damage)
        async for batch, header in span.batches():
            if header is not None:
                part.take(batch, header)
            part.read_up_to = span.position
        part.read_up_to = max(span.position, end)
        self._parts[place.partition] = part

    async def _save(self, number: int, entries: Sequence[Entry], now_ms: int) -> None:
        for batch in batches_of(entries, now_ms):
            await write_patiently(self._cluster, TopicPartition(self.topic, number), batch)


class ProgressPart:
    """What one partition of the topic holds of the lanes that are wanted; of all when `wanted` is None.

    `place`: number of the partition, and of partitions. `is_scattered`: it has records that belong elsewhere
    by that number: the topic had another one. `is_damaged`: a batch could not be read.
    """

    def __init__(self, wanted: set[bytes] | None, start: int, place: tuple[int, int]) -> None:
        self.values: dict[bytes, bytes] = {}
        self.is_scattered = self.is_damaged = False
        self._place = place
        self.read_up_to = start
        self._wanted = wanted
        self._open: dict[int, list[Entry]] = {}

    def take(self, batch: memoryview, header: BatchHeader) -> None:
        """One batch of the topic, in order."""
        try:
            records = read_batch(batch, header, _LARGEST_BATCH)
        except CorruptData as error:
            self.note_damage(error)
            return
        if header.attributes & CONTROL:
            written = self._open.pop(header.producer_id, [])
            key = records[0].key if records else None
            if key is not None and int.from_bytes(key[2:4], "big") == _COMMIT_MARKER:
                self._apply(written)
            return
        self.is_scattered = self.is_scattered or not all(map(self._belongs_here, records))
        entries = [
            (record.key, record.value)
            for record in records
            if record.key is not None and (self._wanted is None or _main_of(record.key) in self._wanted)
        ]
        if header.attributes & TRANSACTIONAL:
            self._open.setdefault(header.producer_id, []).extend(entries)
        else:
            self._apply(entries)

    def note_damage(self, error: CorruptData) -> None:
        """Skip a damaged batch."""
        self.is_damaged = True
        _log.error("a damaged batch of the progress topic is passed over: %s", error)

    def _belongs_here(self, record: Record) -> bool:
        number, count = self._place
        return record.key is None or zlib.crc32(_main_of(record.key)) % count == number

    def forget(self, main: bytes) -> None:
        """Keep nothing of that lane."""
        for key in [key for key in self.values if key.startswith(main) and _main_of(key) == main]:
            del self.values[key]

    def _apply(self, entries: Sequence[Entry]) -> None:
        outdated = {key for key, value in entries if self._is_outdated(key, value)}
        for key, value in entries:
            if outdated and _main_of(key) in outdated:
                continue
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    def _is_outdated(self, key: bytes, value: bytes | None) -> bool:
        if value is None or key.count(b"/") != _MAIN_PARTS - 1:
            return False
        before = self.values.get(key)
        return before is not None and before != value and is_outdated(before, value)


def _main_of(key: bytes) -> bytes:
    """The key of the main record that a record of the topic belongs to."""
    return key if key.count(b"/") < _MAIN_PARTS else b"/".join(key.split(b"/")[:_MAIN_PARTS])


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
