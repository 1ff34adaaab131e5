"""Handling of fetch responses: records go to lanes, errors to recovery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from mirror.errors import (
    BatchTooLarge,
    CorruptData,
    EpochDiverged,
    HeadraceError,
    RecordTooLarge,
    SourceTruncated,
    TopicMissing,
    TopicRecreated,
    TransformFailed,
    UndecodableBatch,
)
from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.model.datastreams.lanes import PauseCause
from mirror.model.datastreams.policy import OnLoss
from mirror.protocol.batches.batch import first_size, scan
from mirror.protocol.codes import MOVED, TRANSIENT, Code, name_of
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.open_transactions import OpenTransactionWatch
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.producer_ids import ProducerIdManager
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.lane_failures import FAILURE_SECONDS
from mirror.wording import counted

_log = logging.getLogger(__name__)
_CORRUPT_READS: Final = 3
"""Number of fetches of a corrupt batch after which the lane pauses."""
_MOST_EMPTY_ANSWERS: Final = 20
"""Maximum number of consecutive empty responses. Each attempt doubles the requested size, which soon
suffices."""
_RETRY_SECONDS: Final = 0.2
_OPENED_AT_ONCE: Final = 200_000
"""Number of records to decode before the loop does other work (approximate). Decoding them takes at most a
second. The rest of a response is fetched again."""


class FetchHandler:
    """Handler of fetch responses. Satisfies `fetcher.FetchListener`."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        runner: LaneRunner,
        pacer: ReadPacer,
        producer_ids: ProducerIdManager,
        rejections: Rejections,
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved
        self._failures = lanes.failures
        self._pacer = pacer
        self._producer_ids = producer_ids
        self._transactions = runner.transactions
        self._rejections = rejections
        self._settings = context.settings
        self._room = _OPENED_AT_ONCE
        """Remaining decoding budget of this loop iteration, in units of `BatchRouter.work`."""
        self.hanging = OpenTransactionWatch(context, lanes, runner)

    def begin_round(self) -> None:
        """Reset the decoding budget for a new loop iteration."""
        self._room = _OPENED_AT_ONCE

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        try:
            self._on_fetched(lane, part, slab, squeezed)
        except Exception as error:  # noqa: BLE001 - the other lanes of the response continue
            self._runner.set_aside(lane, error)

    def _on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, squeezed: bool) -> None:
        if part.error or part.diverging is not None:
            if not self._lanes.source(lane).leave_replica(lane):
                self._on_trouble(lane, part)
            return
        end, now_ms = part.high_watermark, self._context.clock.now_ms()
        lane.note_end(end, part.last_stable_offset, now_ms)
        lane.read.times.record_end(
            end, lane.read.requested_at, self._context.loop.now(), now_ms, lane.checkpoint
        )
        lane.read.log_start = part.log_start
        if not len(part.records):
            self._unsaved.settle(lane)
            if part.preferred_replica >= 0:
                self._on_preferred(lane, part.preferred_replica)
            else:
                self._on_nothing(lane, squeezed=squeezed)
            return
        lane.read.empty_answers = 0
        self._failures.forget(lane, PauseCause.SOURCE_AWAY)
        lane.observed.counters.fetched_parts += 1
        self.hanging.flows(lane)
        failure = self._take(lane, part, slab)
        self._unsaved.settle(lane)
        if failure is not None and not _has_read_all(lane):
            self._on_bad_records(lane, failure)
            return
        lane.read.damaged_reads = 0
        if lane.pause is not None:
            self._runner.note_headway(lane)
        self._note_transactions(lane)
        self._pacer.ask_for_more(lane, len(part.records))
        if lane.queue.unsent:
            self._send(lane)

    def on_end(self, lane: Lane, end: int, requested_at: float) -> None:
        """Record the end offset of a lane that is not fetching. `requested_at`: in monotonic seconds."""
        read, now, now_ms = lane.read, self._context.loop.now(), self._context.clock.now_ms()
        lane.note_end(max(read.high_watermark, end), end, now_ms)
        read.answered_at = now
        if not read.rules.read_committed:  # otherwise more records may have been appended
            read.times.record_end(end, requested_at, now, now_ms, lane.checkpoint)
        self._unsaved.settle(lane)

    def _take(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer) -> HeadraceError | None:
        budget = self._context.budget_of(lane.spec.source, live=lane.read.is_live)
        router = BatchRouter(lane.read.rules, lane.read.position, budget, lane.spec.end_offset, self._room)
        failure: HeadraceError | None = None
        before, now = lane.read.position, self._context.loop.now()
        try:
            router.take(part.records, part.aborted, slab)
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed) as error:
            failure = error
        except Exception:
            router.free()
            raise
        self._room -= router.work
        try:
            lane.accept(router, now, slab.began_at)
        except Exception:
            router.free()
            raise
        for bucket in lane.read.buckets:
            bucket.take(len(part.records), now)
        if failure is not None:
            _note_unread(lane, part.records)
        is_too_small = failure is None and lane.read.position == before and not router.is_cut
        size = first_size(part.records) if is_too_small else router.largest
        if size:
            lane.read.size.note_batch(size)
        return failure

    def _on_nothing(self, lane: Lane, *, squeezed: bool) -> None:
        """Handle an empty response.

        The lane is up to date, a transaction blocks the lane, its next batch requires a larger request, or
        other partitions filled the response.
        """
        end = lane.read.readable_end
        if lane.read.position < end:
            lane.read.empty_answers += not squeezed
            if lane.read.empty_answers > _MOST_EMPTY_ANSWERS:
                self._note_stall(lane, end)
                return
            self._runner.note_headway(lane)
            if not squeezed:
                lane.read.size.grow(self._settings.fetch_bytes)
            if lane.reader is not None:
                lane.reader.include(lane)
            return
        lane.read.empty_answers = 0
        self._failures.forget(lane, PauseCause.SOURCE_AWAY)
        self._runner.note_headway(lane)
        self._note_transactions(lane)
        self._pacer.change_tier(lane, 0)

    def _note_stall(self, lane: Lane, end: int) -> None:
        """Handle a broker that returns no records before the end of the log, even for large requests."""
        if self._lanes.source(lane).leave_replica(lane):
            lane.read.empty_answers = 0
            return
        self._note_failure(
            lane,
            f"the broker returns no records from offset {lane.read.position}, although the log ends at {end}",
        )
        self._pacer.try_later(lane)

    def _on_preferred(self, lane: Lane, replica: int) -> None:
        """Follow the leader's redirect to a preferred replica."""
        if not self._lanes.source(lane).follow(lane, replica):
            self._note_failure(
                lane, f"the leader returns no records and redirects to broker {replica}, which has failed"
            )
            self._pacer.try_later(lane)

    def _note_transactions(self, lane: Lane) -> None:
        """Track whether an open transaction blocks the lane.

        Also called after a response with records, because a fetch session omits a partition whose high
        watermark is unchanged.
        """
        if lane.read.is_blocked:
            self.hanging.holds(lane)
        else:
            self.hanging.flows(lane)

    def _send(self, lane: Lane) -> None:
        if lane.ownership.identity is None:
            self._producer_ids.identify(lane)
        elif lane.ownership.transaction is not None and not lane.ownership.is_in_transaction:
            self._transactions.begin(lane)
        elif lane.writer is not None:
            lane.writer.wake(lane)

    def _on_bad_records(self, lane: Lane, error: HeadraceError) -> None:
        if lane.queue.unsent:
            self._send(lane)
        if isinstance(error, (RecordTooLarge, TransformFailed)):
            self._rejections.unsendable(lane, error)
            return
        if isinstance(error, (BatchTooLarge, UndecodableBatch)):
            self._rejections.unopenable(lane, error)
            return
        lane.read.damaged_reads += 1
        if lane.read.damaged_reads < _CORRUPT_READS:
            _log.warning("%s: %s; retrying the fetch", lane.key.partition, error)
            if self._lanes.source(lane).leave_replica(lane):
                return
            if lane.reader is not None:
                lane.reader.include(lane)
            return
        lane.read.damaged_reads = 0
        self._runner.pause(lane, error, drain=True)

    def _on_trouble(self, lane: Lane, part: FetchedPartition) -> None:
        code = part.error
        if part.diverging is not None:
            epoch, end = part.diverging
            self._diverged(lane, epoch, end, common=epoch)
        elif code == Code.OFFSET_OUT_OF_RANGE:
            self._lanes.source(lane).detach(lane)
            self._runner.spawn(lane, self._out_of_range(lane))
        elif code in TRANSIENT:
            self._note_failure(lane, name_of(code))
            if code in MOVED:
                self._lanes.source(lane).relocate([lane])
            else:
                self._pacer.try_later(lane)
        elif code == Code.CORRUPT_MESSAGE:
            self._on_bad_records(lane, self._error(lane, code))
        else:
            self._runner.pause(lane, self._error(lane, code), drain=True)

    def _error(self, lane: Lane, code: int) -> HeadraceError:
        place, cluster = lane.key.partition, self._lanes.source(lane).cluster
        return cluster.error(code, f"reading {place}", f"Read on topic {place.topic}")

    def on_broken(self, lane: Lane, error: Exception) -> None:
        self._runner.set_aside(lane, error)

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        seconds = 2 * self._settings.request_timeout_seconds  # the next response may stall as long
        for lane in lanes:
            self._note_failure(lane, f"{type(error).__name__}: {error}", seconds)

    def on_relocated(self, lane: Lane) -> None:
        self._runner.guard(lane, self._relocated)

    def _relocated(self, lane: Lane) -> None:
        """Verify with new metadata that the topic is still the same before fetching again."""
        if not lane.may_read:
            return
        problem = self.source_problem(lane)
        if isinstance(problem, TopicRecreated):
            self._runner.restart(lane, str(problem))
        elif problem is not None:
            self._runner.pause(lane, problem, drain=True)
        else:
            self._lanes.source(lane).attach(lane)
            if lane.reader is None:
                self._note_failure(lane, "the partition has no leader")

    def _note_failure(self, lane: Lane, reason: str, seconds: float = FAILURE_SECONDS) -> None:
        sentence = f"reading {lane.key.partition} from {lane.spec.source}: {reason}"
        self._failures.note(lane, PauseCause.SOURCE_AWAY, sentence, seconds)

    def source_problem(self, lane: Lane) -> HeadraceError | None:
        """Return why the lane cannot read according to new metadata, or None."""
        cluster = self._lanes.source(lane).cluster
        name, number = lane.key.partition
        topic = cluster.topics.get(name)
        if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return TopicMissing(
                f"topic {name} does not exist on {cluster.name}",
                advice="create it or remove it from the datastream",
            )
        if topic.error and topic.error not in TRANSIENT:
            return cluster.error(
                topic.error, f"describing topic {name} on {cluster.name}", f"Read on topic {name}"
            )
        if not topic.error and number >= len(topic.leaders):
            return TopicMissing(
                f"topic {name} on {cluster.name} has only {counted(len(topic.leaders), 'partition')}"
            )
        before, now = lane.progress.source.cluster_id, cluster.cluster_id
        if before and now and before != now:
            return TopicRecreated(
                f"{cluster.name} is another cluster ({now}) than the one from which topic {name} was"
                f" copied ({before})",
                advice="change the datastream's destination name, or its name and"
                " system.taskPrefix; on_loss = continue appends the new topic to the copied records",
            )
        identity = cluster.topic_id(name)
        if lane.progress.source.topic_id and identity and identity != lane.progress.source.topic_id:
            return TopicRecreated(
                f"topic {name} on {cluster.name} was deleted and recreated",
                advice="on_loss = continue copies the new topic from its beginning",
            )
        return None

    async def _out_of_range(self, lane: Lane) -> None:
        """Determine whether the log start has passed the lane's position, or the source log was replaced."""
        place, cluster = lane.key.partition, self._lanes.source(lane).cluster
        try:
            await cluster.refresh([place.topic])
            start = (await cluster.offsets({place: EARLIEST}))[place]
            end = (await cluster.offsets({place: LATEST}))[place]
        except HeadraceError as error:
            self._runner.pause(lane, error, drain=True)
            return
        if not lane.may_read:
            return
        problem = self.source_problem(lane)
        if problem is not None:
            self._relocated(lane)
        elif start.error or end.error:
            self._lanes.source(lane).relocate([lane])
        elif lane.read.position < start.offset:
            self._truncated(lane, start.offset)
        elif lane.read.position > end.offset or 0 <= end.leader_epoch < lane.progress.source.leader_epoch:
            # A leader whose epoch is older than ours does not have the records that were copied.
            self._diverged(lane, end.leader_epoch, min(lane.read.position, end.offset))
        else:
            self._runner.later(lane, _RETRY_SECONDS, self._read_again)

    def _read_again(self, lane: Lane) -> None:
        if lane.reader is None:
            self._runner.read_on(lane)

    def _truncated(self, lane: Lane, log_start: int) -> None:
        lost = f"offsets {lane.read.position} to {log_start - 1}"
        missing = f"{lost} of {lane.key.partition} are gone from the source"
        if lane.spec.policy.on_loss is OnLoss.HALT:
            error = SourceTruncated(missing, advice="on_loss = continue records the gap and continues")
            self._runner.pause(lane, error, drain=True)
            return
        _log.warning("%s; continuing after the gap", missing)
        lane.lose(log_start)
        self._unsaved.note_gap(lane, missing)
        self._unsaved.settle(lane)
        self._runner.read_on(lane)

    def _diverged(self, lane: Lane, epoch: int, end: int, *, common: int = -1) -> None:
        """Handle a leader whose log differs from the copied records from `end` on.

        `common`: leader epoch of the record before `end` (-1 if unknown), to detect a difference below `end`.
        """
        sentence = (
            f"the source log of {lane.key.partition} diverges at offset {end} (leader epoch {epoch}) from the"
            f" records copied up to {lane.read.position}: the destination has records that the source lost"
        )
        if lane.spec.policy.on_loss is OnLoss.HALT:
            error = EpochDiverged(sentence, advice="on_loss = continue copies the new log from that offset")
            self._runner.pause(lane, error, drain=True)
            return
        _log.warning("%s; copying the new log", sentence)
        self._lanes.source(lane).detach(lane)
        self._runner.spawn(lane, self._follow_new_history(lane, end, sentence, common))

    async def _follow_new_history(self, lane: Lane, end: int, sentence: str, common: int) -> None:
        while not lane.queue.is_drained:
            await self._context.loop.sleep(_RETRY_SECONDS)
            if lane.reader is not None:
                return  # it was rewound, and may have read the new log from there
        if lane.may_read:
            if (
                lane.read.position >= end
            ):  # otherwise it dropped records read earlier, which are read again first
                self._unsaved.begin_life(lane, end, sentence, same_log=True, leader_epoch=common)
            self._runner.read_on(lane)


def _has_read_all(lane: Lane) -> bool:
    """Return whether the lane has read up to its end offset. Unread records are after it."""
    return lane.spec.end_offset is not None and lane.read.position >= lane.spec.end_offset


def _note_unread(lane: Lane, records: memoryview) -> None:
    """Record the timestamp of the batch that the lane could not accept, if its header is readable."""
    try:
        for _start, _end, header in scan(records):
            if header is not None and header.last_offset >= lane.read.position:
                lane.read.waiting = lane.read.position, header.first_timestamp
                return
    except CorruptData as error:
        _log.debug("%s: age of the backlog unknown: %s", lane.key.partition, error)
