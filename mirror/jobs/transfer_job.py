"""Copies between a source and a destination of which at least one is a connector.

Several times per second, the job polls the end offsets, and copies new records of a few partitions at a time.
Only the sink stores positions. The job reads the stored position when it acquires a partition. A failed
partition is released and retried after a delay, without effect on other partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror.client.event_loop import Loop
from mirror.errors import (
    DataLossDetected,
    Fenced,
    HeadraceError,
    InvalidRequest,
    SourceTruncated,
    TopicMissing,
    TopicRecreated,
    Unexpected,
    Unreachable,
)
from mirror.lane.ledger import OffsetClass, SkippedOffsets, compacted
from mirror.lane.rules import RoutingRules
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import OnLoss
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.protocol.batches.holes import OffsetHole, Span
from mirror.protocol.batches.records import Record
from mirror.replication.concurrency import ConcurrencyLimit
from mirror.replication.connector import (
    Bounds,
    LedgerKeeper,
    Position,
    RecordPortion,
    RecordSink,
    RecordSource,
)

_log = get_logger(__name__)
_ROUND_SECONDS: Final = 0.2
_STEP_SECONDS: Final = 5.0
"""Maximum time that the job spends on one partition while other partitions wait."""
_AT_ONCE: Final = 8
_FIRST_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 30.0


_AllBounds = Mapping[TopicPartition, Bounds]
_Step = Callable[["TransferLane", _AllBounds], Awaitable[None]]


@dataclass(frozen=True)
class TransferJob:
    """Scope and options of a copy to or from a connector.

    `until_end`: stop each partition at the end offset that it had at the start of the job. `needs_position`:
    reject partitions without a committed position. `rules`: the transforms. `own`: internal topics of
    Headrace with configured names.
    """

    selection: TopicSelection
    naming: TopicNaming = field(default_factory=TopicNaming)
    start: StartPosition = StartPosition.EARLIEST
    until_end: bool = False
    needs_position: bool = False
    on_loss: OnLoss = OnLoss.HALT
    rules: RoutingRules = field(default_factory=RoutingRules)
    own: frozenset[str] = frozenset()


class Counts(NamedTuple):
    """Totals of a partition: number of written records, bytes of their keys and values, filtered records."""

    records: int = 0
    bytes: int = 0
    filtered: int = 0


_NOTHING: Final = Counts()


@dataclass
class TransferLane:
    """State of one partition of a copy to or from a connector.

    `read_to`: next offset to read. `committed`: position that the sink has committed. `end`: offset at which
    to stop. `seen_end`: last known end offset of the source. `counts`: totals of written records. `settled`:
    totals of committed records. `reason`: reason why the partition makes no progress. `gaps`: messages about
    lost records.
    """

    place: TopicPartition
    target: TopicPartition
    start: int = -1
    read_to: int = -1
    committed: int = -1
    end: int | None = None
    seen_end: int = -1
    counts: Counts = _NOTHING
    settled: Counts = _NOTHING
    reason: str = ""
    gaps: list[str] = field(default_factory=list)
    is_taken: bool = False
    is_busy: bool = False
    is_over: bool = False
    retry_at: float = 0.0
    retry_seconds: float = _FIRST_RETRY_SECONDS
    pending_since: float | None = None
    origin: str = ""

    @property
    def is_complete(self) -> bool:
        """Return whether all records up to the partition's end are committed."""
        return self.end is not None and self.committed >= self.end and not self.reason


class Transfer:
    """A running copy with a connector. Call `prepare`, then `run`. Signal handlers may call `stop`."""

    def __init__(self, loop: Loop, source: RecordSource, sink: RecordSink, job: TransferJob) -> None:
        self._loop = loop
        self._source = source
        self._sink = sink
        self._job = job
        self._keeper = sink if isinstance(sink, LedgerKeeper) else None
        self._slots = ConcurrencyLimit(_AT_ONCE)
        self._is_stopping = False
        self._refused: dict[str, int] = {}
        """Partition count of each topic that the sink has rejected."""
        self.lanes: list[TransferLane] = []

    async def prepare(self) -> None:
        """Select the partitions, create their topics at the destination, and read their end offsets.

        A rejected topic is created again when the job acquires one of its partitions. An unknown end offset
        is read again later. Raises TopicMissing if no topic matches, Unreachable, and the error of the sink
        if the sink rejects all topics.
        """
        job, topics = self._job, await self._source.topics()
        chosen = job.selection.choose(topics, job.own)
        if not chosen:
            raise TopicMissing(
                f"no topic of the source matches {job.selection.include}",
                advice="the pattern must match the whole name",
            )
        for topic in chosen:
            if job.naming.destination(topic) in job.own:
                raise InvalidRequest(
                    f"topic {topic} would be copied to an internal topic of Headrace",
                    advice="use another --rename",
                )
        await self._make_room({job.naming.destination(topic): topics[topic] for topic in chosen})
        self.lanes = [
            TransferLane(TopicPartition(topic, number), TopicPartition(job.naming.destination(topic), number))
            for topic in chosen
            for number in range(topics[topic])
        ]
        if job.until_end:
            bounds = await self._source.bounds([lane.place for lane in self.lanes])
            for lane in self.lanes:
                lane.end = bounds[lane.place].end if lane.place in bounds else None

    def select(self, places: Collection[TopicPartition]) -> None:
        """Copy only the given partitions."""
        self.lanes = [lane for lane in self.lanes if lane.place in places]

    async def _make_room(self, topics: Mapping[str, int]) -> None:
        """Create the destination topics, one by one if some are rejected.

        Raises the error of the sink if all topics are rejected.
        """
        try:
            await self._sink.prepare(topics)
        except HeadraceError as error:
            if error.retriable:
                raise
            await self._make_room_for_some(topics)

    async def _make_room_for_some(self, topics: Mapping[str, int]) -> None:
        refusals: list[HeadraceError] = []
        for topic, partitions in topics.items():
            try:
                await self._sink.prepare({topic: partitions})
            except HeadraceError as error:
                if error.retriable:
                    raise
                refusals.append(error)
                self._refused[topic] = partitions
        if len(refusals) == len(topics):
            raise refusals[0]

    def stop(self) -> None:
        """Commit all written records, and end the copy. Idempotent."""
        self._is_stopping = True

    async def run(self) -> None:
        """Copy until every partition has reached its end or `stop` is called."""
        while not self._is_stopping and not all(lane.is_over for lane in self.lanes):
            await self._round()
            await self._loop.sleep(_ROUND_SECONDS)
        while any(lane.is_busy for lane in self.lanes):
            await self._loop.sleep(_ROUND_SECONDS)
        for lane in self.lanes:
            await self._guard(lane, self._commit_last)
            await self._sink.release(lane.target)

    async def _round(self) -> None:
        now = self._loop.now()
        lanes = [lane for lane in self.lanes if not (lane.is_over or lane.is_busy) and now >= lane.retry_at]
        if not lanes:
            return
        try:
            bounds = await self._source.bounds([lane.place for lane in lanes])
        except Exception as error:  # noqa: BLE001 - a connector's fault must not end the copy
            for lane in lanes:
                await self._set_aside(lane, _problem(error))
            return
        for lane in lanes:
            lane.is_busy = True
            self._loop.spawn(self._guard(lane, self._advance, bounds))

    async def _guard(self, lane: TransferLane, step: _Step, bounds: _AllBounds | None = None) -> None:
        try:
            async with self._slots:
                await step(lane, bounds or {})
        except Exception as error:  # noqa: BLE001 - a connector's fault affects one partition only
            await self._set_aside(lane, _problem(error))
        finally:
            lane.is_busy = False

    async def _set_aside(self, lane: TransferLane, error: HeadraceError) -> None:
        """Release a partition after an error, and schedule a retry."""
        if lane.reason != str(error):
            _log.warning("partition pauses", partition=str(lane.place), reason=str(error))
        lane.reason = str(error)
        lane.is_taken = False
        lane.counts, lane.pending_since = lane.settled, None
        await self._sink.release(lane.target)
        if isinstance(error, Fenced) or (self._job.until_end and not error.retriable):
            lane.is_over = True
            return
        lane.retry_at = self._loop.now() + lane.retry_seconds
        lane.retry_seconds = min(lane.retry_seconds * 2, _LONGEST_RETRY_SECONDS)

    async def _advance(self, lane: TransferLane, all_bounds: _AllBounds) -> None:
        bounds = all_bounds.get(lane.place)
        if bounds is None:
            raise Unreachable(f"the source returned no offsets for {lane.place}")
        lane.seen_end = bounds.end
        if self._job.until_end and lane.end is None:
            lane.end = bounds.end
        if not lane.is_taken:
            await self._take(lane, bounds)
        self._check(lane, bounds)
        end = bounds.end if lane.end is None else min(lane.end, bounds.end)
        if lane.read_to < end:
            await self._read(lane, end)
        is_at_end = lane.end is not None and lane.read_to >= lane.end
        if is_at_end or self._is_due(lane):
            await self._commit(lane)
        lane.reason, lane.retry_seconds = "", _FIRST_RETRY_SECONDS
        lane.is_over = is_at_end

    async def _take(self, lane: TransferLane, bounds: Bounds) -> None:
        refused = self._refused.get(lane.target.topic)
        if refused is not None:
            await self._sink.prepare({lane.target.topic: refused})
            self._refused.pop(lane.target.topic, None)
        held = await self._sink.take(lane.target)
        lane.is_taken = True
        lane.origin = (held.origin if held else "") or bounds.origin
        if held is None:
            if self._job.needs_position:
                raise InvalidRequest(
                    f"{lane.place} has no committed position", advice="use --start earliest to copy it"
                )
            is_new = self._job.start is StartPosition.LATEST and lane.start < 0
            lane.read_to = bounds.end if is_new else bounds.first
            await self._commit(lane)
        else:
            lane.read_to = lane.committed = held.next_offset
        if lane.start < 0:
            lane.start = lane.read_to

    def _check(self, lane: TransferLane, bounds: Bounds) -> None:
        elsewhere = "use another destination or another --state"
        if lane.origin and bounds.origin and lane.origin != bounds.origin:
            raise TopicRecreated(
                f"{lane.place} was recreated since it was copied up to offset {lane.read_to}",
                advice=elsewhere,
            )
        known_end = max(lane.read_to, lane.end or 0)
        if known_end > bounds.end:
            raise DataLossDetected(
                f"the end of {lane.place} fell from {known_end} to {bounds.end}: the source lost records",
                advice=elsewhere,
            )
        if lane.read_to < bounds.first:
            missing = f"source offsets {lane.read_to} to {bounds.first - 1} of {lane.place} were deleted"
            if self._job.on_loss is OnLoss.HALT:
                raise SourceTruncated(missing, advice="--on-loss continue skips them")
            _log.warning("continuing after a gap", partition=str(lane.place), reason=missing)
            lane.gaps.append(missing)
            self._pass_over(lane, SkippedOffsets(OffsetClass.LOST, lane.read_to, bounds.first))
            lane.read_to = bounds.first

    async def _read(self, lane: TransferLane, end: int) -> None:
        until = self._loop.now() + _STEP_SECONDS
        portions = self._source.read(lane.place, lane.read_to, end)
        try:
            async for portion in portions:
                await self._write(lane, portion, end)
                if self._is_due(lane):
                    await self._commit(lane)
                if self._is_stopping or self._loop.now() >= until:
                    await portions.aclose()
                    return
        except Exception:  # if the loop has been closed, nothing can be awaited
            await portions.aclose()
            raise
        if lane.read_to < end:
            raise Unexpected(
                f"the source returned {lane.place} only up to offset {lane.read_to}, not to its end {end}",
                advice="report it to the author of the connector",
            )

    def _pass_over(self, lane: TransferLane, skipped: SkippedOffsets) -> None:
        if self._keeper is not None:
            self._keeper.pass_over(lane.target, skipped)

    def _kept(self, lane: TransferLane, portion: RecordPortion, end: int) -> list[Record]:
        """Transform the records of a portion, and count offsets whose records are not written."""
        kept: list[Record] = []
        position, span = lane.read_to, portion.span
        for record in portion.records:
            offset = record.offset
            self._note_hole(lane, position, offset, span)
            position = offset + 1
            made = self._job.rules.transform(record)
            if made is None:
                self._pass_over(lane, SkippedOffsets(OffsetClass.FILTERED, offset, position))
            else:
                kept.append(made)
        self._note_hole(lane, position, min(span.next, end), span)
        return kept

    def _note_hole(self, lane: TransferLane, first: int, following: int, span: Span) -> None:
        """Count the offsets in [first, following) as missing, before and within the returned span."""
        for start, stop in ((first, min(following, span.first)), (max(first, span.first), following)):
            if start < stop:
                self._pass_over(lane, compacted(OffsetHole(start, stop, span)))

    async def _write(self, lane: TransferLane, portion: RecordPortion, end: int) -> None:
        kept = self._kept(lane, portion, end)
        lane.read_to = max(lane.read_to, min(portion.span.next, end))
        if not portion.records:
            return
        await self._sink.write(lane.target, kept)
        size = sum(record.payload_bytes for record in kept)
        before, filtered = lane.counts, len(portion.records) - len(kept)
        lane.counts = Counts(before.records + len(kept), before.bytes + size, before.filtered + filtered)
        if lane.pending_since is None:
            lane.pending_since = self._loop.now()

    def _is_due(self, lane: TransferLane) -> bool:
        rule, since = self._sink.commit_rule, lane.pending_since
        if since is None:
            return False
        is_full = lane.counts.bytes - lane.settled.bytes >= rule.most_bytes
        return is_full or self._loop.now() - since >= rule.most_seconds

    async def _commit_last(self, lane: TransferLane, _bounds: _AllBounds) -> None:
        if lane.is_taken and not lane.is_over:
            await self._commit(lane)

    async def _commit(self, lane: TransferLane) -> None:
        await self._sink.commit(lane.target, Position(lane.read_to, lane.origin))
        lane.committed = lane.read_to
        lane.settled, lane.pending_since = lane.counts, None


def _problem(error: Exception) -> HeadraceError:
    if isinstance(error, HeadraceError):
        return error
    _log.error("operation of a connector failed", exc_info=error)
    return Unexpected(
        f"unexpected error: {type(error).__name__}: {error}", advice="see the traceback in the log"
    )
