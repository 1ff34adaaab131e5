"""Actions of a lane's lifecycle that need no decision, on channels, buffers, pending work and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneAction
from mirror.lane.progress import Contents
from mirror.model.datastreams.lanes import LaneStopped
from mirror.replication.context import EngineContext
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.reports.lane_reports import report_of

Performer = Callable[[Lane], None]


class LaneActions:
    """Performs the actions of a lane's lifecycle. `abandon` aborts the open transaction of a lane."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, abandon: Performer) -> None:
        self._context = context
        self._lanes = lanes
        self._unsaved = lanes.unsaved
        self._lane_log = lanes.log
        self._abandon = abandon

    def performers(self) -> Mapping[LaneAction, Performer]:
        """Return the function that performs each action."""
        return {
            LaneAction.DETACH_READER: self._detach_reader,
            LaneAction.DETACH_WRITER: self._detach_writer,
            LaneAction.SHED: Lane.shed,
            LaneAction.LET_GO: self._let_go,
            LaneAction.FREE: self._free,
            LaneAction.START: self._start,
            LaneAction.AWAIT_CHECKPOINT: self._await_checkpoint,
            LaneAction.MARK_DIRTY: self._unsaved.note_change,
            LaneAction.REPORT_PAUSED: self._report_paused,
            LaneAction.REPORT_RESUMED: self._report_resumed,
            LaneAction.REPORT_STOPPED: self._report_stopped,
        }

    def _detach_reader(self, lane: Lane) -> None:
        source = self._lanes.sources.get(lane.spec.source)
        if source is not None:  # a lane may fail before its clusters are opened
            source.detach(lane)

    def _detach_writer(self, lane: Lane) -> None:
        sink = self._lanes.sinks.get(lane.spec.destination)
        if sink is not None:
            sink.detach(lane)

    def _let_go(self, lane: Lane) -> None:
        self._detach_writer(lane)
        is_in_transaction = lane.ownership.is_in_transaction
        if lane.queue.is_ambiguous:
            lane.disown()
        lane.drop()
        if is_in_transaction:
            self._abandon(lane)
        if lane.is_broken:
            lane.contents = Contents.UNREAD
            lane.disown()

    def _free(self, lane: Lane) -> None:
        lane.contents = Contents.UNREAD
        try:
            if lane.ownership.is_in_transaction:
                self._abandon(lane)
        finally:
            lane.disown()
            lane.free_all()

    def _start(self, lane: Lane) -> None:
        self._lanes.to_start[lane] = None

    def _await_checkpoint(self, lane: Lane) -> None:
        self._lanes.stopping[lane] = None

    def _report_paused(self, lane: Lane) -> None:
        assert lane.pause is not None, "a lane pauses with a reason"
        self._lane_log.waits(lane.spec, lane.pause.reason, lane.pause.cause)

    def _report_resumed(self, lane: Lane) -> None:
        self._lane_log.copies(lane.key)

    def _report_stopped(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        self._context.release_progress(lane.spec.destination, lane.key)
        if self._context.identity.keeps_reports:
            self._lanes.final.append(report_of(lane, self._context.loop.now()))
        has_begun = lane.is_loaded and lane.read.position >= 0
        self._lanes.report(LaneStopped(lane.key, lane.checkpoint if has_begun else None))
