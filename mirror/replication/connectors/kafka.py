"""Kafka as a connector, for copies between Kafka and files or plug-ins.

The source reads one partition at a time, outside the fetch channels of lanes. The sink commits the records
and the lane's progress record in one transaction, under the transactional id of the lane. The next owner uses
the same id. It thereby aborts the open transaction of the former owner, and then reads progress that can no
longer change.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from mirror.client.administration.creation import create_adjusted
from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.client.producer_identity import (
    SequencedProducer,
    add_to_transaction,
    adds_partitions,
    end,
    retake_identity,
    take_identity,
)
from mirror.errors import (
    ONE_OWNER_ADVICE,
    DataLossDetected,
    Fenced,
    HeadraceError,
    RecordTooLarge,
    Refused,
    Unreachable,
)
from mirror.lane.ledger import Ledger, OffsetClass, SkippedOffsets
from mirror.lane.offset_map import OffsetMap
from mirror.lane.parts.ownership import identity_name
from mirror.lane.progress import LaneProgress, SourceIdentity, entries_of, main_key
from mirror.lane.rules import AbortedFilter
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.batches.batch import CONTROL, BatchHeader, ProducerStamp, scan, verify
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.holes import Span
from mirror.protocol.batches.legacy import last_offset, read_message
from mirror.protocol.batches.partitioner import BATCH_BYTES, sized_batches
from mirror.protocol.batches.records import JOB_PARTS, Record, read_batch
from mirror.protocol.codes import Code
from mirror.protocol.control.former_identity import FormerIdentity
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.transactions import DESCRIBE_TRANSACTIONS
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.connector import Bounds, CommitRule, Position, RecordPortion
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import batches_of
from mirror.wording import counted

_log = get_logger(__name__)
_STEP_BYTES: Final = 1024 * 1024
_MOST_BYTES: Final = 128 * 1024 * 1024
_MOST_EMPTY_ANSWERS: Final = 20
_COMMIT: Final = CommitRule(8 * 1024 * 1024, 1.0)
_SETTLE_SECONDS: Final = 30.0
_OFFSETS_SECONDS: Final = 5.0
"""Time limit for offset lookups in seconds. Partitions without a leader wait until it expires."""


class KafkaSource:
    """Reads the topics of a cluster. Implements `connector.RecordSource`. `committed`: only records of
    committed transactions."""

    def __init__(self, cluster: Cluster, *, committed: bool = True) -> None:
        self._cluster = cluster
        self._committed = committed

    async def topics(self) -> Mapping[str, int]:
        """Return the partition counts of all topics except internal and unavailable ones."""
        found = await self._cluster.patiently(self._cluster.all_topics)
        return {
            name: len(topic.leaders)
            for name, topic in found.items()
            if not topic.error and not topic.internal
        }

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return the range from the log start to the last stable offset or high watermark."""
        cluster = self._cluster
        await cluster.patiently(lambda: cluster.refresh({place.topic for place in places}))
        starts = await cluster.offsets(dict.fromkeys(places, EARLIEST), seconds=_OFFSETS_SECONDS)
        led = {place: LATEST for place in places if not starts[place].error}
        ends = await cluster.offsets(led, committed=self._committed, seconds=_OFFSETS_SECONDS)
        return {
            place: Bounds(starts[place].offset, ends[place].offset, self._origin(place.topic))
            for place in led
            if not ends[place].error
        }

    def _origin(self, topic: str) -> str:
        identity = self._cluster.topic_id(topic)
        return f"{self._cluster.cluster_id}/{identity.hex()}" if identity else ""

    async def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[RecordPortion, None]:
        """Yield the records with offsets in [start, end). An empty response does not prove that no record
        exists, because throttled responses are empty too."""
        cluster, position, size, empty = self._cluster, start, _STEP_BYTES, 0
        origin = self._origin(place.topic)
        while position < end:
            ask = partial(fetch_once, cluster, place, position, committed=self._committed, most_bytes=size)
            part = await self._part(place, ask)
            if self._origin(place.topic) != origin:
                raise Unreachable(f"topic {place.topic} on {cluster.name} was just recreated")
            before = position
            for portion in _batches_of(part, before, end, committed=self._committed):
                position = min(portion.span.next, end)
                yield portion
            if position > before:
                empty = 0
            else:
                empty, size = empty + 1, min(size * 2, _MOST_BYTES)
            if empty > _MOST_EMPTY_ANSWERS:
                raise Unreachable(
                    f"{cluster.name} returns no records of {place} from offset {position},"
                    f" although the log ends at {end}"
                )

    async def _part(
        self, place: TopicPartition, ask: Callable[[], Awaitable[FetchedPartition]]
    ) -> FetchedPartition:
        """Fetch one response. For OFFSET_OUT_OF_RANGE, raises Unreachable: the caller retries, and the new
        bounds of the log show the cause."""
        try:
            return await self._cluster.patiently(ask, topic=place.topic)
        except Refused as error:
            if type(error) is not Refused:
                raise
            raise Unreachable(
                error.message, advice="the next retry first reads the start and end offsets"
            ) from error

    def close(self) -> None:
        """Do nothing: the context that opened the cluster also closes it."""


def _batches_of(
    part: FetchedPartition, position: int, end: int, *, committed: bool
) -> Iterator[RecordPortion]:
    """Yield the records of each batch in [position, end), with the offset range of its header. Stops at the
    first batch at or after `end`. Raises CorruptData."""
    aborted = AbortedFilter(part.aborted) if committed else None
    for first_byte, last_byte, header in scan(part.records):
        batch = part.records[first_byte:last_byte]
        last = last_offset(batch) if header is None else header.last_offset
        if last < position:
            continue
        if header is None:
            records = read_message(batch)
            span = Span(records[0].offset if records else last, last + 1)
        else:
            verify(batch, header)
            span = Span(header.base_offset, last + 1)
            records = _records_of(batch, header, aborted) if span.first < end else []
        if span.first >= end:
            yield RecordPortion(span)
            return
        wanted = [record for record in records if position <= record.offset < end]
        position = min(span.next, end)
        yield RecordPortion(span, wanted)


def _records_of(batch: memoryview, header: BatchHeader, aborted: AbortedFilter | None) -> list[Record]:
    """Return the records of a batch. Empty if the batch must be skipped. If `aborted` is None, records of
    aborted transactions are included."""
    if aborted is None:
        is_left_out = bool(header.attributes & CONTROL)
    else:
        is_left_out = aborted.offset_class(batch, header) is not None
    return [] if is_left_out else read_batch(batch, header, most=JOB_PARTS)


class _Owned:
    """A partition that the sink owns, with its producer id and its open transaction."""

    def __init__(self, key: LaneKey, identity: ProducerStamp, progress: LaneProgress | None) -> None:
        self.key = key
        self.name = identity_name(key)
        self.use(identity)
        self.ledger = progress.ledger if progress else None
        self.offset_map = progress.offset_map if progress else OffsetMap()
        self.waiting: list[Record] = []
        self.waiting_bytes = 0
        self.skipped: list[SkippedOffsets] = []
        """Skipped offsets that are not recorded in the ledger yet, in order."""
        self.is_open = False
        self.opened_at = 0.0
        """Time at which the open transaction was requested (monotonic seconds)."""

    def use(self, identity: ProducerStamp) -> None:
        """Use a producer identity whose sequences start at 0."""
        self.producer, self.progress_producer = SequencedProducer(identity), SequencedProducer(identity)

    def pass_over(self, upto: int) -> None:
        """Assign a class to all skipped offsets below `upto` in the ledger. Offsets without a reported class
        count as filtered, because a committed position covers only written records and records skipped on
        purpose."""
        ledger, skipped = self.ledger, self.skipped
        assert ledger is not None, "a start is committed before the first record"
        while skipped and skipped[0].next <= upto:
            skip = skipped.pop(0)
            if ledger.next < skip.first:
                ledger.enter(OffsetClass.FILTERED, skip.first - ledger.next)
            ledger.pass_over(skip)
        if ledger.next < upto:
            ledger.enter(OffsetClass.FILTERED, upto - ledger.next)


class KafkaSink:
    """Writes records to topics of a cluster. Implements `connector.RecordSink` and `connector.LedgerKeeper`.
    `state`: name under which progress is stored."""

    guarantees = frozenset(Guarantee)
    commit_rule = _COMMIT

    def __init__(self, bench: EngineContext, reference: ClusterRef, state: GroupName) -> None:
        self._bench = bench
        self._cluster = bench.cluster(reference)
        self._progress = bench.progress(reference)
        self._state = state
        self._owned: dict[TopicPartition, _Owned] = {}
        self._former: dict[TopicPartition, FormerIdentity] = {}
        """Last known producer ids of partitions that this sink has owned, except those in `_owned`."""

    async def prepare(self, topics: Mapping[str, int]) -> None:
        """Create missing topics with the cluster's defaults, and wait for leaders. Raises Refused,
        Unreachable."""
        cluster = self._cluster
        await cluster.patiently(lambda: cluster.refresh(topics))
        for name, partitions in topics.items():
            if cluster.topics[name].error == Code.UNKNOWN_TOPIC_OR_PARTITION:
                wanted = TopicDescription(name, partitions, {"message.timestamp.type": "CreateTime"})
                await create_adjusted(cluster, wanted, self._bench.identity.replication_factor)
        await cluster.patiently(partial(self._check_topics, topics), _SETTLE_SECONDS)

    async def _check_topics(self, topics: Mapping[str, int]) -> None:
        await self._cluster.refresh(topics)
        for name, partitions in topics.items():
            known = self._cluster.topics[name]
            if not known.is_ready:
                raise Unreachable(f"topic {name} on {self._cluster.name} has no leaders yet")
            if len(known.leaders) < partitions:
                raise Refused(
                    f"topic {name} on {self._cluster.name} has {counted(len(known.leaders), 'partition')},"
                    f" but needs {partitions}",
                    advice="add partitions",
                )

    async def take(self, place: TopicPartition) -> Position | None:
        cluster, key = self._cluster, LaneKey(self._state, place)
        await cluster.patiently(lambda: cluster.refresh([place.topic]))
        identity = await self._take_identity(key)
        stored = (await self._progress.load([key]))[key]
        if stored is not None and not stored.is_of(place.topic, cluster.topic_id(place.topic), 0):
            stored = None
        if stored is not None and stored.target_id not in (b"", cluster.topic_id(place.topic)):
            raise DataLossDetected(
                f"topic {place.topic} on {cluster.name} was deleted and recreated: copied records are lost",
                advice="run the copy with another --state to copy everything again",
            )
        self._owned[place] = _Owned(key, identity, stored)
        del self._former[place]
        return None if stored is None else Position(stored.next_offset, stored.source.cluster_id)

    async def _take_identity(self, key: LaneKey) -> ProducerStamp:
        """Take the producer id of a partition under a new epoch. If the sink had the id before, it takes the
        id only from itself. Raises Fenced if another owner has the id."""
        cluster, former = self._cluster, self._former.get(key.partition)
        name, patience = identity_name(key), self._bench.settings.transaction_timeout_seconds
        if former is None or cluster.newest(DESCRIBE_TRANSACTIONS) < 0:
            identity = await take_identity(cluster, name, patience, transactional=True)
        else:
            found = await retake_identity(cluster, name, patience, former, committed=False)
            if found is None:
                raise Fenced(
                    f"another owner has taken the producer id of {key.partition}", advice=ONE_OWNER_ADVICE
                )
            identity = found
        self._former[key.partition] = FormerIdentity((identity.producer_id, identity.epoch), is_open=False)
        return identity

    async def write(self, place: TopicPartition, records: Sequence[Record]) -> None:
        owned = self._owned[place]
        owned.waiting += records
        owned.waiting_bytes += sum(record.payload_bytes for record in records)
        if owned.waiting_bytes >= BATCH_BYTES:
            with self._expiry_of(owned):
                await self._flush(owned)

    def pass_over(self, place: TopicPartition, skipped: SkippedOffsets) -> None:
        self._owned[place].skipped.append(skipped)

    async def commit(self, place: TopicPartition, position: Position) -> None:
        owned = self._owned[place]
        with self._expiry_of(owned):
            await self._flush(owned)
            await self._commit(owned, position)

    async def _commit(self, owned: _Owned, position: Position) -> None:
        if owned.ledger is None:
            owned.ledger = Ledger(position.next_offset)
        elif position.next_offset == owned.ledger.next and not owned.is_open:
            return
        owned.pass_over(position.next_offset)
        await self._begin(owned)
        progress = LaneProgress(
            owned.ledger,
            owned.offset_map,
            SourceIdentity(cluster_id=position.origin),
            self._cluster.topic_id(owned.key.partition.topic),
            target_topic=owned.key.partition.topic,
            owner=(owned.producer.identity.producer_id, owned.producer.identity.epoch),
        )
        now_ms = self._bench.clock.now_ms()
        entries, sealed = entries_of(owned.key, progress, now_ms, self._bench.token)
        for batch in batches_of(entries, now_ms):
            place = self._progress_place(owned)
            await owned.progress_producer.write(self._cluster, place, batch, owned.name.encode())
        await self._end(owned)
        owned.offset_map.sealed = max(owned.offset_map.sealed, sealed)

    @contextmanager
    def _expiry_of(self, owned: _Owned) -> Iterator[None]:
        """Replace the error of a transaction that the coordinator may have aborted because of its age.

        The caller then takes the partition again, which fails if another owner has it (`_take_identity`).
        Brokers before 3.0 do not report the owner, so the error remains.
        """
        try:
            yield
        except (Fenced, Refused) as error:
            cluster, oldest = self._cluster, self._bench.settings.transaction_timeout_seconds
            seconds = cluster.loop.now() - owned.opened_at
            is_supported = cluster.newest(DESCRIBE_TRANSACTIONS) >= 0
            if not (owned.is_open and seconds >= oldest and is_supported):
                raise
            raise Unreachable(
                f"transaction of {owned.key.partition} on {cluster.name} was open for {seconds:.0f} s, longer"
                f" than transaction_timeout_seconds ({oldest:g}): {error.message}"
            ) from error

    async def release(self, place: TopicPartition) -> None:
        owned = self._owned.pop(place, None)
        if owned is None:
            return
        identity = owned.producer.identity
        self._former[place] = FormerIdentity((identity.producer_id, identity.epoch), owned.is_open)
        if not owned.is_open:
            return
        try:
            await end(self._cluster, owned.name, identity, commit=False)
        except HeadraceError as error:
            _log.info("transaction left to the next owner", **owned.key.log_fields, reason=str(error))

    def close(self) -> None:
        """Drop the state of all partitions. Open transactions expire or are aborted later."""
        self._owned.clear()
        self._former.clear()

    async def forget(self, places: Sequence[TopicPartition]) -> None:
        """Delete the stored progress of the given partitions. Raises Unreachable."""
        await self._progress.forget(
            [LaneKey(self._state, place) for place in places], self._bench.clock.now_ms()
        )

    def _progress_place(self, owned: _Owned) -> TopicPartition:
        return TopicPartition(self._progress.topic, self._progress.partition_of(main_key(owned.key)))

    async def _begin(self, owned: _Owned) -> None:
        if owned.is_open:
            return
        owned.is_open, owned.opened_at = True, self._cluster.loop.now()
        if not adds_partitions(self._cluster):
            places = [owned.key.partition, self._progress_place(owned)]
            await add_to_transaction(self._cluster, owned.name, owned.producer.identity, places)

    async def _end(self, owned: _Owned) -> None:
        answer = await end(self._cluster, owned.name, owned.producer.identity, commit=True)
        if answer.error:
            right = f"Write on transactional id {owned.name}"
            raise self._cluster.error(answer.error, f"cannot commit records of {owned.key.partition}", right)
        owned.is_open = False
        if answer.producer_id >= 0:
            owned.use(ProducerStamp(answer.producer_id, answer.epoch, transactional=True))

    async def _flush(self, owned: _Owned) -> None:
        records, owned.waiting, owned.waiting_bytes = owned.waiting, [], 0
        for part in sized_batches(records):
            await self._send(owned, part)

    async def _send(self, owned: _Owned, records: Sequence[Record]) -> None:
        await self._begin(owned)
        batch, place = write_batch(records, Codec.LZ4), owned.key.partition
        try:
            answer = await owned.producer.write(self._cluster, place, batch, owned.name.encode())
        except RecordTooLarge:
            if len(records) == 1:
                raise
            middle = len(records) // 2
            await self._send(owned, records[:middle])
            await self._send(owned, records[middle:])
            return
        assert owned.ledger is not None, "a start is committed before the first record"
        for target, record in enumerate(records, answer.base_offset):
            owned.pass_over(record.offset)
            owned.ledger.enter(OffsetClass.MIRRORED, 1)
            owned.offset_map.add(record.offset, target, 1)
