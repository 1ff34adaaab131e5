"""Handling of fetch responses: records go to lanes, errors to recovery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from mirror.errors import (
    BatchTooLarge,
    CorruptData,
    HeadraceError,
    RecordTooLarge,
    TransformFailed,
    UndecodableBatch,
)
from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.model.datastreams.lanes import PauseCause
from mirror.protocol.batches.batch import first_size, scan
from mirror.protocol.codes import MOVED, TRANSIENT, Code, name_of
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.open_transactions import OpenTransactionWatch
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.handlers.source_logs import SourceLogs
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.producer_ids import ProducerIdManager
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.lane_failures import FAILURE_SECONDS

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
        self._ends = lanes.ends
        self._delivery = lanes.delivery
        self._failures = lanes.failures
        self._pacer = pacer
        self._producer_ids = producer_ids
        self._transactions = runner.transactions
        self._rejections = rejections
        self._settings = context.settings
        self._room = _OPENED_AT_ONCE
        """Remaining decoding budget of this loop iteration, in units of `BatchRouter.work`."""
        self.hanging = OpenTransactionWatch(context, lanes, runner)
        self.source_logs = SourceLogs(context, lanes, runner)

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
        self._ends.note_response(lane, part, self._context.loop.now(), self._context.clock.now_ms())
        if not len(part.records):
            self._delivery.settle(lane)
            if part.preferred_replica >= 0:
                self._on_preferred(lane, part.preferred_replica)
            else:
                self._on_nothing(lane, squeezed=squeezed)
            return
        lane.read.empty_answers = 0
        if lane in self._failures.by_lane:
            self._failures.forget(lane, PauseCause.SOURCE_AWAY)
        if lane in self.hanging.lanes:
            self.hanging.flows(lane)
        failure = self._take(lane, part, slab)
        self._delivery.settle(lane)
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
        self._ends.note_end(lane, end, requested_at, self._context.loop.now(), self._context.clock.now_ms())
        self._delivery.settle(lane)

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
            self._delivery.accept(lane, router, now, slab.began_at)
        except Exception:
            router.free()
            raise
        for bucket in lane.read.buckets:
            bucket.take(len(part.records), now)
        if failure is not None and (timestamp := _first_timestamp(lane, part.records)) is not None:
            self._delivery.note_unread(lane, timestamp)
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
        if lane in self._failures.by_lane:
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
        elif lane in self.hanging.lanes:
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
            self.source_logs.diverged(lane, epoch, end, common=epoch)
        elif code == Code.OFFSET_OUT_OF_RANGE:
            self._lanes.source(lane).detach(lane)
            self._runner.spawn(lane, self.source_logs.out_of_range(lane))
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
        self._runner.guard(lane, self.source_logs.verify)
        if lane.may_read and lane.reader is None:
            self._note_failure(lane, "the partition has no leader")

    def _note_failure(self, lane: Lane, reason: str, seconds: float = FAILURE_SECONDS) -> None:
        sentence = f"reading {lane.key.partition} from {lane.spec.source}: {reason}"
        self._failures.note(lane, PauseCause.SOURCE_AWAY, sentence, seconds)


def _has_read_all(lane: Lane) -> bool:
    """Return whether the lane has read up to its end offset. Unread records are after it."""
    return lane.spec.end_offset is not None and lane.read.position >= lane.spec.end_offset


def _first_timestamp(lane: Lane, records: memoryview) -> int | None:
    """Return the first timestamp (epoch ms) of the batch at the lane's position; None if it is unreadable."""
    try:
        for _start, _end, header in scan(records):
            if header is not None and header.last_offset >= lane.read.position:
                return header.first_timestamp
    except CorruptData as error:
        _log.debug("%s: age of the backlog unknown: %s", lane.key.partition, error)
    return None
