"""Progress of lanes that is not stored yet, and durable positions not committed to consumer groups yet."""

from __future__ import annotations

from typing import Final

from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.lane.progress import Contents, LaneProgress

_MOST_GAPS: Final = 20


class UnsavedProgress:
    """Lanes with unsaved progress. `token`: name of this engine in the progress that it stores."""

    def __init__(self, token: str) -> None:
        self.dirty: dict[Lane, None] = {}
        """Lanes with unsaved progress."""
        self.moved: dict[Lane, int] = {}
        """Durable positions not yet committed to the lanes' consumer groups."""
        self._token = token

    def mark(self, lane: Lane) -> None:
        """Queue the lane for a checkpoint if its progress changed."""
        if lane.dirty:
            self.dirty[lane] = None
            if len(lane.progress.gaps) > _MOST_GAPS:
                del lane.progress.gaps[:-_MOST_GAPS]

    def note_change(self, lane: Lane) -> None:
        """Record changed progress. A stopped lane is not queued."""
        lane.dirty = True
        if lane.state is not LaneState.STOPPED:
            self.mark(lane)

    def take_change(self, lane: Lane) -> None:
        """Mark the lane's progress as being stored."""
        lane.dirty = False
        self.dirty.pop(lane, None)

    def discard(self, lane: Lane) -> None:
        """Drop the lane's unsaved progress instead of storing it: the lane will load its stored progress
        again."""
        if not lane.is_broken:
            lane.contents = Contents.UNREAD
        self.dirty.pop(lane, None)

    def forget(self, lane: Lane) -> None:
        """Drop a lane that has stopped. The lane's durable position is still committed to its consumer
        group."""
        self.dirty.pop(lane, None)

    def note_moved(self, lane: Lane, position: int) -> None:
        """Queue a durable position, to be committed to the lane's consumer group, if it has one. Positions
        that are not durable must not be committed: a consumer that continues from the group would miss
        records."""
        if lane.spec.consumer_group:
            self.moved[lane] = position

    def take_moved(self) -> dict[Lane, int]:
        """Return the queued positions, which the caller commits."""
        moved, self.moved = self.moved, {}
        return moved

    def is_foreign(self, lane: Lane, stored: LaneProgress | None) -> bool:
        """Return whether another engine has stored this progress since the lane was loaded."""
        if stored is None or stored.version is None or stored.version == lane.progress.version:
            return False
        return stored.version[0] != self._token
