"""Handles Fetch responses: passes records to lanes, and errors and empty responses to `FetchFailures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, HeadraceError, RecordTooLarge, TransformFailed
from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.model.datastreams.lanes import PauseCause
from mirror.protocol.batches.batch import first_size
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.fetch_failures import FetchFailures
from mirror.replication.handlers.open_transactions import OpenTransactionWatch
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.handlers.source_logs import SourceLogs
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.producer_ids import ProducerIdManager
from mirror.replication.quotas.read_pacer import ReadPacer

_OPENED_AT_ONCE: Final = 200_000
"""Approximate number of records to decode before the loop does other work (at most one second).

The rest of the response is fetched again.
"""


class FetchHandler:
    """Handles Fetch responses. Implements `channel_rules.FetchListener`."""

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
        self._runner = runner
        self._ends = lanes.ends
        self._delivery = lanes.delivery
        self._failures = lanes.failures
        self._pacer = pacer
        self._producer_ids = producer_ids
        self._transactions = runner.transactions
        self._room = _OPENED_AT_ONCE
        """Remaining decoding budget of this loop iteration, in units of `BatchRouter.work`."""
        self.hanging = OpenTransactionWatch(context, lanes, runner)
        self.source_logs = SourceLogs(context, lanes, runner)
        self._trouble = FetchFailures(context, lanes, runner, pacer, rejections, self.source_logs)

    def begin_round(self) -> None:
        """Reset the time budget for decoding at the start of an iteration of the event loop."""
        self._room = _OPENED_AT_ONCE

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        try:
            self._on_fetched(lane, part, slab, squeezed)
        except Exception as error:  # noqa: BLE001 - the other lanes of the response continue
            self._runner.set_aside(lane, error)

    def _on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, squeezed: bool) -> None:
        if part.error or part.diverging is not None:
            self._trouble.on_error(lane, part)
            return
        self._ends.note_response(lane, part, self._context.loop.now(), self._context.clock.now_ms())
        if not len(part.records):
            self._on_nothing(lane, part.preferred_replica, squeezed=squeezed)
            return
        if lane in self._failures.by_lane:
            self._failures.forget(lane, PauseCause.SOURCE_AWAY)
        if lane in self.hanging.lanes:
            self.hanging.flows(lane)
        failure = self._take(lane, part, slab)
        self._delivery.settle(lane)
        if failure is not None and not _has_read_all(lane):
            self._send(lane)
            self._trouble.on_bad_records(lane, failure)
            return
        if lane.read.empty_answers or lane.read.damaged_reads:
            self._trouble.end(lane)
        if lane.pause is not None:
            self._runner.note_headway(lane)
        self._note_transactions(lane)
        self._pacer.ask_for_more(lane, len(part.records))
        self._send(lane)

    def _on_nothing(self, lane: Lane, preferred: int, *, squeezed: bool) -> None:
        self._delivery.settle(lane)
        if preferred >= 0:
            self._trouble.on_preferred(lane, preferred)
            return
        if not squeezed and lane.read.position < lane.read.readable_end:
            lane.read.size.grow(self._context.settings.fetch_bytes)
        if self._trouble.on_empty(lane, squeezed=squeezed):
            self._note_transactions(lane)
            self._pacer.change_tier(lane, 0)

    def on_end(self, lane: Lane, end: int, requested_at: float) -> None:
        """Set the end offset of a partition that is not fetched. `requested_at`: monotonic seconds."""
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
        if failure is not None:
            self._trouble.note_unread(lane, part.records)
        is_too_small = failure is None and lane.read.position == before and not router.is_cut
        size = first_size(part.records) if is_too_small else router.largest
        if size:
            lane.read.size.note_batch(size)
        return failure

    def _note_transactions(self, lane: Lane) -> None:
        """Update whether an open transaction of the source blocks the lane. Also called after a response with
        records, because a fetch session omits a partition with an unchanged high watermark."""
        if lane.read.is_blocked:
            self.hanging.holds(lane)
        elif lane in self.hanging.lanes:
            self.hanging.flows(lane)

    def _send(self, lane: Lane) -> None:
        if not lane.queue.unsent:
            return
        if lane.ownership.identity is None:
            self._producer_ids.identify(lane)
        elif lane.ownership.transaction is not None and not lane.ownership.is_in_transaction:
            self._transactions.begin(lane)
        elif lane.writer is not None:
            lane.writer.wake(lane)

    def on_broken(self, lane: Lane, error: Exception) -> None:
        self._runner.set_aside(lane, error)

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        self._trouble.on_unreceived(lanes, error)

    def on_relocated(self, lane: Lane) -> None:
        self._runner.guard(lane, self.source_logs.verify)
        if lane.may_read and lane.reader is None:
            self._trouble.note(lane, "the partition has no leader")


def _has_read_all(lane: Lane) -> bool:
    """Return whether the lane has read up to the end of the source log."""
    return lane.spec.end_offset is not None and lane.read.position >= lane.spec.end_offset
