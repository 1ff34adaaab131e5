"""Handles Produce responses: passes acknowledgements to lanes, and all others to `ProduceFailures`."""

from __future__ import annotations

from mirror.lane.batch_merge import BatchMerger
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch, RejectedBatch
from mirror.protocol.codes import MAYBE_STORED, TRANSIENT
from mirror.protocol.produce import ProducedPartition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.produce_failures import ProduceFailures
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.quotas.read_pacer import ReadPacer


class AckHandler:
    """Handles Produce responses. Implements `channel_rules.ProduceListener`."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        runner: LaneRunner,
        pacer: ReadPacer,
        rejections: Rejections,
    ) -> None:
        self._context = context
        self._runner = runner
        self._delivery = lanes.delivery
        self._pacer = pacer
        self.trouble = ProduceFailures(context, lanes, runner, rejections)

    def on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        if not outgoing.outstanding:
            outgoing.free()  # the lane has dropped the batch
            return
        try:
            self._on_answer(lane, outgoing, answer)
        except Exception as error:  # noqa: BLE001 - the other lanes of the response continue
            outgoing.outstanding = False
            self._runner.set_aside(lane, error)

    def _on_answer(self, lane: Lane, outgoing: OutBatch, answer: ProducedPartition) -> None:
        queue, transaction = lane.queue, lane.ownership.transaction
        if answer.error:
            rejected = RejectedBatch(outgoing, answer.error, answer.message, answer.record_errors)
            self._delivery.reject(lane, rejected, maybe_stored=answer.error in MAYBE_STORED)
        else:
            now_ms, now = self._context.clock.now_ms(), self._context.loop.now()
            self._delivery.acknowledge(lane, outgoing, answer.base_offset, now_ms, now)
            is_gap = self._delivery.settle(lane)
            if queue.send_tries or queue.damaged_sends:
                self.trouble.end(lane, outgoing)
            if lane.pause is not None:
                self._runner.note_headway(lane)
            if queue.is_slow and not queue.in_flight:
                self.trouble.share_requests(lane)
            if is_gap or (transaction is not None and answer.base_offset < transaction.floor):
                self.trouble.destination_lost(lane, is_gap=is_gap)
        self._go_on(lane)

    def on_lost(self, lane: Lane, outgoing: OutBatch, *, maybe_stored: bool = True) -> None:
        if not outgoing.outstanding:
            outgoing.free()
            return
        try:
            self._on_lost(lane, outgoing, maybe_stored)
        except Exception as error:  # noqa: BLE001 - the other lanes of the request continue
            outgoing.outstanding, outgoing.maybe_stored = False, outgoing.maybe_stored or maybe_stored
            self._runner.set_aside(lane, error)

    def next_batch(self, lane: Lane, merger: BatchMerger | None = None) -> OutBatch | None:
        try:
            return self._delivery.next_batch(lane, merger)
        except Exception as error:  # noqa: BLE001 - the other lanes of the request continue
            self._runner.set_aside(lane, error)
            return None

    def _on_lost(self, lane: Lane, outgoing: OutBatch, maybe_stored: bool) -> None:
        self._delivery.unanswered(lane, outgoing, maybe_stored=maybe_stored)
        if not lane.queue.in_flight:
            if lane.queue.trouble is None or lane.queue.trouble.code in TRANSIENT:
                self._delivery.requeue(lane)
            self._go_on(lane)

    def on_unwritable(self, lane: Lane) -> None:
        self._runner.guard(lane, self.trouble.unwritable)

    def on_writable(self, lane: Lane) -> None:
        if lane.read.waits:
            self._runner.guard(lane, self._pacer.resume)

    def _go_on(self, lane: Lane) -> None:
        if lane.queue.in_flight == 0 and lane.queue.trouble is not None:
            self.trouble.resolve(lane, lane.queue.trouble)
        if lane.intent is not None:
            self._runner.settle(lane)
        if lane.writer is not None and lane.queue.unsent and lane.may_send():
            lane.writer.wake(lane)
        if lane.read.waits:
            self._pacer.resume(lane)

    def on_target_relocated(self, lane: Lane) -> None:
        self._runner.guard(lane, self.trouble.target_relocated)
