"""Finds out which records the destination rejects, and applies the datastream's rejection policy.

Brokers with Produce 8 or later may name the rejected records. Otherwise, the batch is decoded. The mirror
first encodes the batch again as a whole, because the broker may not accept the producer's variant of a codec,
and then record by record. The policy (pause, dead-letter, skip) applies to the rejected records after all
earlier records have reached the destination.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final

from mirror.client.log_reader import PartitionRange, fetch_once
from mirror.errors import (
    BatchTooLarge,
    HeadraceError,
    RecordRejected,
    RecordTooLarge,
    TransformFailed,
    UndecodableBatch,
    Unreachable,
)
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.out_batch import OutBatch, RejectedBatch
from mirror.lane.progress import SourceIdentity
from mirror.loggers import get_logger
from mirror.model.datastreams.policy import OnRejection
from mirror.protocol.batches.batch import scan
from mirror.protocol.batches.legacy import NO_TIMESTAMP, last_offset
from mirror.protocol.batches.opener import BatchOpener
from mirror.protocol.batches.records import Record
from mirror.protocol.codes import Code
from mirror.replication import limits
from mirror.replication.context import EngineContext
from mirror.replication.handlers.dead_letters import DeadLetterTopic
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry

_log = get_logger(__name__)

REFUSED: Final = frozenset(
    {
        Code.UNKNOWN_SERVER_ERROR,
        Code.CORRUPT_MESSAGE,
        Code.MESSAGE_TOO_LARGE,
        Code.RECORD_LIST_TOO_LARGE,
        Code.INVALID_TIMESTAMP,
        Code.UNSUPPORTED_COMPRESSION_TYPE,
        Code.INVALID_RECORD,
    }
)
"""Errors that concern the batch itself.

Brokers return UNKNOWN_SERVER_ERROR if they cannot decompress records.
"""
_UNREADABLE: Final = frozenset({Code.UNKNOWN_SERVER_ERROR, Code.CORRUPT_MESSAGE, Code.INVALID_RECORD})
"""Produce errors of a broker that cannot read the records."""


class Rejections:
    """Handles the rejected batches of lanes, after every batch in flight has a response."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._aside: set[Lane] = set()
        """Lanes whose dead letters are being written.

        Further rejections of a lane in this set are ignored, because they will recur.
        """

    def refused(self, lane: Lane, trouble: RejectedBatch) -> None:
        """Handle a batch that the destination broker rejected."""
        outgoing = trouble.outgoing
        doing = (
            f"cannot write offsets {outgoing.first_offset} to {outgoing.next_offset - 1}"
            f" of {lane.key.partition}"
        )
        doing, right = f"{doing} to {lane.spec.destination_topic}", f"Write on topic {lane.target.topic}"
        error = self._lanes.sink(lane).cluster.error(trouble.code, doing, right, trouble.message)
        if isinstance(error, RecordTooLarge) and outgoing.count > 1:
            limits.learn_cap(lane, len(outgoing.batch))
            self._runner.restart(lane, f"the destination rejects batches of {len(outgoing.batch)} bytes")
            return
        culprits = _culprits(outgoing, trouble)
        if culprits:
            self._apply_policy(lane, culprits, error)
        elif outgoing.made_from is None:
            self._open(lane, outgoing, singly=False)
        else:
            self._open(lane, outgoing, singly=True)

    def unsendable(self, lane: Lane, error: RecordTooLarge | TransformFailed) -> None:
        """Handle a record that was not sent: it is too large for the destination, or a transform failed."""
        if lane.spec.policy.on_rejection is OnRejection.PAUSE:
            self._runner.pause(lane, error, drain=True)
        else:
            self._apply_policy(lane, [error.offset], error)

    def unopenable(self, lane: Lane, error: BatchTooLarge | UndecodableBatch) -> None:
        """Handle a batch that must be decoded, but is too large or damaged."""
        policy = lane.spec.policy.on_rejection
        if policy is OnRejection.PAUSE:
            self._runner.pause(lane, error, drain=True)
        elif policy is OnRejection.SKIP:
            self._leave_unopened(lane, OffsetClass.FILTERED, error, lane.progress.source)
        else:
            self._write_letters(lane, self._put_batch_aside(lane, error))

    async def _put_batch_aside(self, lane: Lane, error: BatchTooLarge | UndecodableBatch) -> None:
        """Write the whole batch unchanged to the dead-letter topic, as the value of one record."""
        source = lane.progress.source
        part = await fetch_once(
            self._lanes.source(lane).cluster, lane.key.partition, error.offset, committed=False
        )
        for start, end, header in scan(part.records):
            batch = part.records[start:end]
            if (last_offset(batch) if header is None else header.last_offset) == error.last_offset:
                timestamp = NO_TIMESTAMP if header is None else header.max_timestamp
                whole = Record(error.offset, timestamp, None, bytes(batch))
                await self._topic(lane).write([_letter(lane, whole, error)], self._context.clock.now_ms())
                break
        else:
            raise Unreachable(f"the batch at offset {error.offset} of {lane.key.partition} could not be read")
        self._leave_unopened(lane, OffsetClass.DEAD_LETTERED, error, source)

    def _leave_unopened(
        self,
        lane: Lane,
        offset_class: OffsetClass,
        error: BatchTooLarge | UndecodableBatch,
        source: SourceIdentity,
    ) -> None:
        _log.warning("batch skipped", **lane.key.log_fields, reason=str(error))
        limits.leave_unopened(lane, error.last_offset, offset_class, source)
        self._runner.restart(lane, "an undecodable batch is skipped")

    def _open(self, lane: Lane, outgoing: OutBatch, *, singly: bool) -> None:
        limits.open_refused(lane, outgoing.first_offset, outgoing.next_offset, singly=singly)
        self._runner.restart(lane, "a rejected batch is opened" + (", record by record" if singly else ""))

    def _apply_policy(self, lane: Lane, offsets: Sequence[int], error: HeadraceError) -> None:
        policy = lane.spec.policy.on_rejection
        if policy is OnRejection.PAUSE:
            coordinates = ", ".join(map(str, offsets[:5])) + (" …" if len(offsets) > 5 else "")
            advice = "change the destination topic's settings or the datastream's rejection policy"
            self._runner.pause(
                lane, RecordRejected(f"{error.message}; source offset {coordinates}", advice=advice)
            )
        elif policy is OnRejection.SKIP:
            self._omit(lane, offsets, OffsetClass.FILTERED, error, lane.progress.source)
        else:
            self._write_letters(lane, self._put_aside(lane, offsets, error))

    def _omit(
        self,
        lane: Lane,
        offsets: Sequence[int],
        offset_class: OffsetClass,
        error: HeadraceError,
        source: SourceIdentity,
    ) -> None:
        _log.warning("records skipped", **lane.key.log_fields, offsets=offsets, reason=str(error))
        limits.omit(lane, offsets, offset_class, source)
        self._runner.restart(lane, "the rejected records are skipped")

    def _write_letters(self, lane: Lane, writing: Coroutine[Any, Any, None]) -> None:
        self._lanes.source(lane).detach(lane)
        if lane in self._aside:
            writing.close()
        else:
            self._aside.add(lane)
            self._context.loop.spawn(self._written(lane, writing))

    async def _written(self, lane: Lane, writing: Coroutine[Any, Any, None]) -> None:
        try:
            await writing
        except Exception as error:  # noqa: BLE001 - it concerns one lane
            self._runner.set_aside(lane, error)
        finally:
            self._aside.remove(lane)

    async def _put_aside(self, lane: Lane, offsets: Sequence[int], error: HeadraceError) -> None:
        """Copy records to the dead-letter topic, and exclude them from the lane. They stay excluded after a
        restart of the lane, because they would become dead letters twice."""
        source = lane.progress.source
        letters = [_letter(lane, record, error) for record in await self._read(lane, offsets)]
        await self._topic(lane).write(letters, self._context.clock.now_ms())
        self._omit(lane, offsets, OffsetClass.DEAD_LETTERED, error, source)

    def _topic(self, lane: Lane) -> DeadLetterTopic:
        replication = self._context.identity.replication_factor
        return DeadLetterTopic(self._lanes.sink(lane).cluster, lane.spec.destination_topic, replication)

    async def _read(self, lane: Lane, offsets: Sequence[int]) -> list[Record]:
        cluster, wanted = self._lanes.source(lane).cluster, set(offsets)
        found: list[Record] = []
        span = PartitionRange(cluster, lane.key.partition, min(offsets), max(offsets) + 1)
        opener = BatchOpener(lane.read.rules.opened_bytes, lane.read.rules.opened_records, min(offsets))
        async for batch, header in span.batches():
            records = opener.message_records(batch) if header is None else opener.records(batch, header)
            found += [record for record in records if record.offset in wanted]
        if missing := wanted - {record.offset for record in found}:
            raise Unreachable(f"offset {min(missing)} of {lane.key.partition} could not be read")
        return found


def _letter(lane: Lane, record: Record, error: HeadraceError) -> Record:
    """Return a source record as a dead letter, with its coordinates and the error in headers."""
    place = lane.key.partition
    origin = (
        (b"headrace-source", f"{lane.spec.source}/{place.topic}".encode()),
        (b"headrace-partition", str(place.partition).encode()),
        (b"headrace-offset", str(record.offset).encode()),
        (b"headrace-reason", error.message.encode()[:1000]),
    )
    return record._replace(headers=(*record.headers, *origin))


def _culprits(outgoing: OutBatch, trouble: RejectedBatch) -> list[int]:
    """Return the source offsets of records that the broker has named as rejected. Empty if the broker named
    no record, or may have been unable to read a batch that was copied unchanged."""
    is_read = bool(trouble.record_errors) or outgoing.made_from is not None
    if outgoing.count == 1 and (is_read or trouble.code not in _UNREADABLE):
        return [outgoing.runs[0][0]]
    indexes = sorted({index for index, _ in trouble.record_errors if 0 <= index < outgoing.count})
    offsets = [first + step for first, length in outgoing.runs for step in range(length)]
    return [offsets[index] for index in indexes]
