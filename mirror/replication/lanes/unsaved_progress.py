"""Changes the progress of lanes, and queues each changed lane for a checkpoint.

Only steps of ownership (producer id, next destination offset) change progress elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mirror.lane.lane import Lane
from mirror.lane.ledger import SkippedOffsets
from mirror.lane.lifecycle import LaneState
from mirror.lane.out_batch import FoundRecords
from mirror.lane.progress import Contents, Entry, LaneProgress, SourceIdentity, entries_of, forgotten_chunks
from mirror.model.movement.append_times import AppendTimes
from mirror.replication.limits import forget_unnamed_topic

_MOST_GAPS: Final = 20


class UnsavedProgress:
    """Lanes with unsaved progress. `token`: name of this engine in the progress that it stores."""

    def __init__(self, token: str) -> None:
        self.dirty: dict[Lane, None] = {}
        """Lanes with unsaved progress."""
        self.moved: dict[Lane, int] = {}
        """Durable positions not yet committed to the lanes' consumer groups."""
        self._token = token

    def settle(self, lane: Lane) -> bool:
        """Record the items of the lane that are at the destination or skipped. Return whether they show
        that the destination has lost records."""
        gaps = len(lane.progress.gaps)
        if not lane.settle():
            return False
        has_lost = len(lane.progress.gaps) > gaps
        self.note_change(lane)
        return has_lost

    def begin(self, lane: Lane, position: int) -> None:
        """Start a new ledger and offset map at this source offset."""
        lane.begin(position)
        self.note_change(lane)

    def begin_life(
        self, lane: Lane, position: int, sentence: str, *, same_log: bool, leader_epoch: int = -1
    ) -> None:
        """Continue at a position after the source log was replaced or has diverged.

        The position may be earlier. Starts a new ledger; with `same_log`, keeps the map before `position`.
        `leader_epoch`: epoch of the record before `position`, -1 if unknown. Requires an empty queue.
        """
        assert lane.queue.is_drained, "its items belong to the former log"
        forget_unnamed_topic(lane)
        lane.read.waiting, lane.read.times = (-1, -1), AppendTimes()
        lane.progress.begin_life(position, sentence, same_log=same_log, leader_epoch=leader_epoch)
        lane.read.position = position
        self.note_change(lane)

    def begin_target(self, lane: Lane, sentence: str) -> None:
        """Start over in a new destination log that has no mirrored records."""
        lane.progress.begin_target(sentence)
        self.note_change(lane)

    def begin_elsewhere(self, lane: Lane) -> None:
        """Forget progress that belongs to another destination. The lane has no position until `begin`."""
        lane.progress.begin_elsewhere()
        lane.read.position = -1

    def note_logs(self, lane: Lane, source: SourceIdentity, target_id: bytes, target_cluster: str) -> None:
        """Record which logs the lane copies between."""
        lane.progress.source = source
        lane.progress.target_id, lane.progress.target_cluster = target_id, target_cluster

    def find(self, lane: Lane, found: Sequence[FoundRecords | SkippedOffsets], target_next: int) -> None:
        """Record copies found at the destination, in source order, starting at the checkpoint."""
        lane.progress.find(found, target_next)
        lane.read.position = lane.checkpoint
        self.note_change(lane)

    def note_gap(self, lane: Lane, sentence: str) -> None:
        """Add a sentence about a loss."""
        lane.progress.gaps.append(sentence)
        self.note_change(lane)

    def lose_target(self, lane: Lane, first: int) -> None:
        """Record that the destination lost the records from `first` on."""
        lane.progress.lose_target(first, lane.key.partition)
        self.note_change(lane)

    def accept_loss(self, lane: Lane) -> None:
        """Continue after a loss at the destination."""
        lane.progress.target_loss = ""
        self.note_change(lane)

    def note_change(self, lane: Lane) -> None:
        """Queue the lane for a checkpoint, unless it has stopped."""
        if lane.state is not LaneState.STOPPED:
            self.dirty[lane] = None
        if len(lane.progress.gaps) > _MOST_GAPS:
            del lane.progress.gaps[:-_MOST_GAPS]

    def take_change(self, lane: Lane) -> None:
        """Mark the lane's progress as being stored, or drop a lane that has stopped. A durable position is
        still committed to its consumer group."""
        self.dirty.pop(lane, None)

    def records_of(self, lane: Lane, now_ms: int, *, clean: bool = False) -> tuple[list[Entry], int]:
        """Return the records to write, and the number for `note_sealed`. Parts below the log start are
        omitted. `clean`: the lane ends, and no batch of it is in flight."""
        progress, start = lane.progress, lane.read.log_start
        before = progress.offset_map.first_index
        progress.offset_map.prune(start)
        progress.ledger.prune(start)
        forgotten = forgotten_chunks(lane.key, before, progress.offset_map.first_index)
        entries, sealed = entries_of(lane.key, lane.stored_progress(clean=clean), now_ms, self._token)
        return forgotten + entries, sealed

    def note_sealed(self, lane: Lane, upto: int) -> None:
        """Record that the runs of the map before number `upto` are stored in chunks."""
        lane.progress.offset_map.sealed = max(lane.progress.offset_map.sealed, upto)

    def note_moved(self, lane: Lane, position: int) -> None:
        """Queue a durable position for a commit to the lane's consumer group, if it has one. Positions that
        are not durable must not be committed: a consumer that continues from the group would miss
        records."""
        if lane.spec.consumer_group:
            self.moved[lane] = position

    def load(self, lane: Lane, stored: LaneProgress | None) -> None:
        """Restore the lane from stored progress; without stored progress, start without it."""
        lane.contents = Contents.LOADED if stored is None else Contents.FOUND
        if stored is None:
            lane.restore(replace(lane.progress, clean=True))
            lane.read.position = -1
        else:
            lane.restore(stored)
            lane.ownership.needs_fence = not stored.clean
        self.dirty.pop(lane, None)

    def is_elsewhere(self, lane: Lane, target_id: bytes) -> bool:
        """Return whether loaded progress must be ignored. Ignored progress belongs to a former
        datastream with the same name and another destination, or to the time before a restart. `target_id`:
        id of the destination topic, empty if unknown."""
        if lane.contents is not Contents.FOUND:
            return False
        lane.contents = Contents.LOADED
        return not lane.progress.is_of(lane.spec.destination_topic, target_id, lane.spec.restart_ms)

    def discard(self, lane: Lane) -> None:
        """Drop the lane's progress instead of storing it. The lane will load its stored progress again."""
        lane.contents = Contents.UNREAD
        self.dirty.pop(lane, None)

    def invalidate(self, lane: Lane) -> None:
        """Do not store the lane's progress, because a step failed halfway. The lane drops its items before it
        loads its stored progress again."""
        lane.contents = Contents.BROKEN

    def take_moved(self) -> dict[Lane, int]:
        """Return the queued positions, which the caller commits."""
        moved, self.moved = self.moved, {}
        return moved

    def is_foreign(self, lane: Lane, stored: LaneProgress | None) -> bool:
        """Return whether another engine has stored this progress since the lane was loaded."""
        if stored is None or stored.version is None or stored.version == lane.progress.version:
            return False
        return stored.version[0] != self._token
