"""Handles Fetch responses without records to copy: broker errors, damaged batches, and empty responses."""

from __future__ import annotations

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
from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import PauseCause
from mirror.protocol.batches.batch import scan
from mirror.protocol.codes import MOVED, TRANSIENT, Code, name_of
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.context import EngineContext
from mirror.replication.handlers.rejections import Rejections
from mirror.replication.handlers.source_logs import SourceLogs
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.lane_failures import FAILURE_SECONDS

_log = get_logger(__name__)
_CORRUPT_READS: Final = 3
"""Number of fetches of a corrupt batch until the lane pauses."""
_MOST_EMPTY_ANSWERS: Final = 20
"""Maximum number of consecutive empty responses. The requested size doubles with each."""


class FetchFailures:
    """Decides how to continue after a Fetch response has no records to copy."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        runner: LaneRunner,
        pacer: ReadPacer,
        rejections: Rejections,
        source_logs: SourceLogs,
    ) -> None:
        self._settings = context.settings
        self._lanes = lanes
        self._runner = runner
        self._delivery = lanes.delivery
        self._failures = lanes.failures
        self._pacer = pacer
        self._rejections = rejections
        self._source_logs = source_logs

    def end(self, lane: Lane) -> None:
        """Reset the lane's counts of fetch errors after a response with only valid records."""
        lane.read.empty_answers = lane.read.damaged_reads = 0

    def on_empty(self, lane: Lane, *, squeezed: bool) -> bool:
        """Handle an empty Fetch response. Return whether the lane has read everything readable.

        Otherwise its next batch requires a larger request, or other partitions filled the response
        (`squeezed`).
        """
        end = lane.read.readable_end
        if lane.read.position < end:
            lane.read.empty_answers += not squeezed
            if lane.read.empty_answers > _MOST_EMPTY_ANSWERS:
                self._note_stall(lane, end)
                return False
            self._runner.note_headway(lane)
            if lane.reader is not None:
                lane.reader.include(lane)
            return False
        lane.read.empty_answers = 0
        if lane in self._failures.by_lane:
            self._failures.forget(lane, PauseCause.SOURCE_AWAY)
        self._runner.note_headway(lane)
        return True

    def _note_stall(self, lane: Lane, end: int) -> None:
        """Handle a broker that returns no records before the end of the log, whatever the fetch size."""
        if self._lanes.source(lane).leave_replica(lane):
            lane.read.empty_answers = 0
            return
        self.note(
            lane,
            f"the broker returns no records from offset {lane.read.position}, although the log ends at {end}",
        )
        self._pacer.try_later(lane)

    def on_preferred(self, lane: Lane, replica: int) -> None:
        """Move the lane to the preferred replica that the leader's response names (KIP-392)."""
        if not self._lanes.source(lane).follow(lane, replica):
            self.note(
                lane, f"the leader returns no records and redirects to broker {replica}, which has failed"
            )
            self._pacer.try_later(lane)

    def note_unread(self, lane: Lane, records: memoryview) -> None:
        """Store the timestamp of the batch at the lane's position, which cannot be copied."""
        timestamp = _first_timestamp(lane, records)
        if timestamp is not None:
            self._delivery.note_unread(lane, timestamp)

    def on_bad_records(self, lane: Lane, error: HeadraceError) -> None:
        """Handle a fetched batch that is damaged or cannot be copied."""
        lane.read.empty_answers = 0
        if isinstance(error, (RecordTooLarge, TransformFailed)):
            self._rejections.unsendable(lane, error)
            return
        if isinstance(error, (BatchTooLarge, UndecodableBatch)):
            self._rejections.unopenable(lane, error)
            return
        lane.read.damaged_reads += 1
        if lane.read.damaged_reads < _CORRUPT_READS:
            _log.warning("repeating a fetch", **lane.key.log_fields, reason=str(error))
            if self._lanes.source(lane).leave_replica(lane):
                return
            if lane.reader is not None:
                lane.reader.include(lane)
            return
        lane.read.damaged_reads = 0
        self._runner.pause(lane, error, drain=True)

    def on_error(self, lane: Lane, part: FetchedPartition) -> None:
        """Handle a broker error in a Fetch response, or a log that has diverged from the copied records."""
        if self._lanes.source(lane).leave_replica(lane):
            return
        code = part.error
        if part.diverging is not None:
            epoch, end = part.diverging
            self._source_logs.diverged(lane, epoch, end, common=epoch)
        elif code == Code.OFFSET_OUT_OF_RANGE:
            self._lanes.source(lane).detach(lane)
            self._runner.spawn(lane, self._source_logs.out_of_range(lane))
        elif code in TRANSIENT:
            self.note(lane, name_of(code))
            if code in MOVED:
                self._lanes.source(lane).relocate([lane])
            else:
                self._pacer.try_later(lane)
        elif code == Code.CORRUPT_MESSAGE:
            self.on_bad_records(lane, self._error(lane, code))
        else:
            self._runner.pause(lane, self._error(lane, code), drain=True)

    def _error(self, lane: Lane, code: int) -> HeadraceError:
        place, cluster = lane.key.partition, self._lanes.source(lane).cluster
        return cluster.error(code, f"cannot read {place}", f"Read on topic {place.topic}")

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        """Handle a Fetch response that is too large or has stalled."""
        seconds = 2 * self._settings.request_timeout_seconds  # the next response may stall as long
        for lane in lanes:
            self.note(lane, f"{type(error).__name__}: {error}", seconds)

    def note(self, lane: Lane, reason: str, seconds: float = FAILURE_SECONDS) -> None:
        """Note that the lane cannot read, with the reason. A new response is expected within `seconds`."""
        sentence = f"cannot read {lane.key.partition} from {lane.spec.source}: {reason}"
        self._failures.note(lane, PauseCause.SOURCE_AWAY, sentence, seconds)


def _first_timestamp(lane: Lane, records: memoryview) -> int | None:
    """Return the first timestamp (epoch ms) of the batch at the lane's position, or None if unreadable."""
    try:
        for _start, _end, header in scan(records):
            if header is not None and header.last_offset >= lane.read.position:
                return header.first_timestamp
    except CorruptData as error:
        _log.debug("age of the backlog unknown", **lane.key.log_fields, reason=str(error))
    return None
