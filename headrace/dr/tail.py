"""Reads the tail of a lost cluster: the records that were not copied before it was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.errors import Unreachable
from mirror.jobs.dr.fork import Fork, offsets_of
from mirror.jobs.transfer_job import Transfer, TransferJob
from mirror.lane.rules import RoutingRules, Transform
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import OnLoss
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.protocol.batches.records import Record
from mirror.protocol.control.offsets import EARLIEST
from mirror.replication.connector import Bounds, RecordPortion, RecordSink
from mirror.replication.connectors.avro_format import SUFFIX
from mirror.replication.connectors.files import FileSource
from mirror.replication.connectors.kafka import KafkaSink, KafkaSource
from mirror.replication.connectors.landing_folder import folder_of, position_in
from mirror.replication.context import EngineContext
from mirror.wording import counted, first_few, with_place

REPLAYED_HEADER: Final = "headrace-replayed"
"""Header of a replayed record, with the value `CLUSTER/OFFSET` of the original record."""
_LOOK_SECONDS: Final = 0.1
_STUCK_SECONDS: Final = 20.0


class TailRange(NamedTuple):
    """Offsets [start, end) of a partition whose records the operator has neither replayed nor skipped.

    `expired`: number of undecided offsets before `start` that retention has deleted.
    """

    start: int
    end: int
    expired: int = 0


class PartitionTail(NamedTuple):
    """Records of one partition that the lost cluster had and the active cluster does not.

    `from_ms`, `to_ms`: minimum and maximum timestamp (epoch ms), None if there is no record.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    records: int
    bytes: int
    from_ms: int | None
    to_ms: int | None
    expired: int


@dataclass(frozen=True)
class TailReader:
    """Reads the records of a lost cluster that were not copied. `committed`: read only committed records."""

    bench: EngineContext
    fork: Fork
    committed: bool

    @property
    def _cluster(self) -> Cluster:
        return self.bench.cluster(ClusterRef(self.fork.cluster))

    async def ranges(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, TailRange]:
        """Return the offsets of each partition that has undecided records. Raises Unreachable."""
        firsts = await self._cluster.offsets(dict.fromkeys(ends, EARLIEST))
        found = {}
        for place, end in sorted(ends.items()):
            if firsts[place].error:
                raise Unreachable(f"{self.fork.cluster} returned no first offset of {place}")
            start = self.fork.start(place)
            first = max(start, min(firsts[place].offset, end))
            if first < end or first > start:
                found[place] = TailRange(first, end, first - start)
        return found

    async def list(self, ends: Mapping[TopicPartition, int]) -> list[PartitionTail]:
        """Count the undecided records of each partition. Raises Unreachable, CorruptData, NotAuthorized."""
        source = KafkaSource(self._cluster, committed=self.committed)
        found = []
        for place, span in (await self.ranges(ends)).items():
            records = size = 0
            from_ms: int | None = None
            to_ms: int | None = None
            async for record in _records(source, place, span.start, span.end):
                records += 1
                size += record.payload_bytes
                from_ms = record.timestamp if from_ms is None else min(from_ms, record.timestamp)
                to_ms = record.timestamp if to_ms is None else max(to_ms, record.timestamp)
            if records or span.expired:
                found.append(
                    PartitionTail(*place, span.start, span.end, records, size, from_ms, to_ms, span.expired)
                )
        return found

    async def settle(self) -> Fork:
        """Find the exact fork by comparing records after the last checkpoint with the lost cluster.

        If the log of the target is now shorter than recorded, only its remaining records are compared. Raises
        Unreachable, CorruptData.
        """
        found = {}
        target = KafkaSource(self.bench.cluster(ClusterRef(self._target)), committed=self.committed)
        source = KafkaSource(self._cluster, committed=self.committed)
        for topic, offsets in self.fork.log_ends.items():
            for number, log_end in offsets.items():
                place = TopicPartition(topic, number)
                here = await _bounds(source, self.fork.cluster, place)
                there = await _bounds(target, self._target, place)
                copied, end = self.fork.copied[topic][number], self.fork.ends[topic][number]
                copies = [record async for record in _records(target, place, end, min(log_end, there.end))]
                start = max(copied, here.first)
                found[place] = await matched(_records(source, place, start, here.end), copies, (copied, end))
        return self.fork.settled(found)

    @property
    def _target(self) -> str:
        """Cluster to which the datastreams copied before the failover."""
        definition = next(iter(self.fork.definitions.values()))
        return str(definition["destination"]["cluster"])


async def _bounds(source: KafkaSource, cluster: str, place: TopicPartition) -> Bounds:
    found = await source.bounds([place])
    if place not in found:
        raise Unreachable(f"{cluster} returned no offsets of {place}")
    return found[place]


async def _records(
    source: KafkaSource, place: TopicPartition, start: int, end: int
) -> AsyncGenerator[Record, None]:
    if start < end:
        async for portion in source.read(place, start, end):
            for record in portion.records:
                yield record


async def matched(
    source: AsyncGenerator[Record, None], copies: Sequence[Record], start: tuple[int, int]
) -> tuple[int, int]:
    """Return the source and the target offset that follow the last copied record of a partition.

    `copies`: target records after the last checkpoint, in order. Records of other producers match no source
    record, and are ignored. `start`: source and target offset to return if there is no copy.
    """
    remaining = list(reversed(copies))
    found = start
    async for record in source:
        ahead = next(
            (number for number in range(len(remaining) - 1, -1, -1) if _equal(remaining[number], record)),
            None,
        )
        if ahead is None:
            await source.aclose()
            break  # copies are in source order, so no later record was copied
        found = record.offset + 1, remaining[ahead].offset + 1
        del remaining[ahead:]
    return found


def _equal(record: Record, other: Record) -> bool:
    return record[1:] == other[1:]


class _TailSource:
    """Record source that reads only the undecided records of the lost cluster. Implements
    `connector.RecordSource`."""

    def __init__(self, source: KafkaSource, ranges: Mapping[TopicPartition, TailRange]) -> None:
        self._source = source
        self._ranges = ranges

    async def topics(self) -> Mapping[str, int]:
        counts = await self._source.topics()
        return {topic: counts[topic] for topic in {place.topic for place in self._ranges} if topic in counts}

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        found = await self._source.bounds(places)
        bounds = {}
        for place, here in found.items():
            span = self._ranges.get(place, TailRange(0, 0))
            bounds[place] = Bounds(span.start, span.end, here.origin)
        return bounds

    def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[RecordPortion, None]:
        return self._source.read(place, start, end)

    def close(self) -> None:
        """Do nothing: the context closes the connections to the cluster."""


def _replay_name(fork: Fork, generation: int) -> GroupName:
    return GroupName(f"dr-tail-{fork.identity}-{generation}")


def replay_sink(reader: TailReader, active: str) -> KafkaSink:
    """Return the record sink that writes replayed records to the active cluster.

    Each transaction of the sink also stores the position of the replay. The name of the position is unique to
    this tail, and changes with every decision about the tail.
    """
    state = _replay_name(reader.fork, reader.fork.generation)
    return KafkaSink(reader.bench, ClusterRef(active), state)


async def forget_replays(reader: TailReader, active: str) -> None:
    """Delete the stored positions of all replays of the tail. Raises Unreachable. Called when every record of
    the tail was replayed or skipped."""
    fork = reader.fork
    keys = [
        LaneKey(_replay_name(fork, generation), place)
        for generation in range(fork.generation)
        for place in offsets_of(fork.decided)
    ]
    if keys:
        await reader.bench.progress(ClusterRef(active)).forget(keys, reader.bench.clock.now_ms())


def marked(cluster: str) -> Transform:
    """Return a transform that adds a header with cluster and offset of origin (`headrace-replayed`) to
    records."""

    def apply(record: Record) -> Record | None:
        origin = f"{cluster}/{record.offset}".encode()
        return record._replace(headers=(*record.headers, (REPLAYED_HEADER.encode(), origin)))

    return apply


def exported_ends(folder: Path, ranges: Mapping[TopicPartition, TailRange]) -> dict[TopicPartition, int]:
    """Map each partition to the offset up to which earlier exports have written its records to a folder.

    Raises CorruptData, Unreachable.
    """
    found = {place: position_in(folder_of(folder, place), SUFFIX) for place in ranges}
    return {
        place: min(position.next_offset, ranges[place].end) for place, position in found.items() if position
    }


async def exported_records(
    folder: Path, ranges: Mapping[TopicPartition, TailRange], ends: Mapping[TopicPartition, int]
) -> int:
    """Count the records before `ends` that exports have written to the files of a folder.

    Raises CorruptData, Unreachable.
    """
    files, count = FileSource(folder), 0
    for place, bounds in (await files.bounds(list(ends))).items():
        start = max(ranges[place].start, bounds.first)
        count += sum([len(portion.records) async for portion in files.read(place, start, ends[place])])
    return count


async def copy_tail(
    reader: TailReader, ranges: Mapping[TopicPartition, TailRange], sink: RecordSink, rules: RoutingRules
) -> int:
    """Copy the undecided records to a sink in offset order, and return their number.

    The sink stores the position together with the records, so an interrupted copy resumes without duplicates.
    Raises Unreachable if a partition cannot be copied to its end.
    """
    if not ranges:
        return 0
    loop = reader.bench.loop
    source = _TailSource(
        KafkaSource(reader.bench.cluster(ClusterRef(reader.fork.cluster)), committed=reader.committed), ranges
    )
    everything = TopicSelection(".*", internal=True)
    job = TransferJob(everything, until_end=True, on_loss=OnLoss.CONTINUE, rules=rules)
    transfer = Transfer(loop, source, sink, job)
    await transfer.prepare()
    transfer.select(ranges)
    running = loop.spawn(transfer.run())
    stuck_since: float | None = None
    while not running.is_done:
        await loop.sleep(_LOOK_SECONDS)
        waiting = [lane for lane in transfer.lanes if not lane.is_over]
        is_stuck = bool(waiting) and all(lane.reason for lane in waiting)
        stuck_since = (loop.now() if stuck_since is None else stuck_since) if is_stuck else None
        if stuck_since is not None and loop.now() - stuck_since > _STUCK_SECONDS:
            transfer.stop()
    running.result()
    if incomplete := [with_place(lane.place, lane.reason) for lane in transfer.lanes if not lane.is_complete]:
        what = f"{counted(len(incomplete), 'partition')} of the tail could not be copied"
        raise Unreachable(f"{what}: {first_few(incomplete, separator='; ')}")
    return sum(lane.settled.records for lane in transfer.lanes)
