"""Keeps failures of lanes that are retried, until they expire or the lane makes progress (see `stalls`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import PauseCause
from mirror.replication.reports.causes import LaneFailure

FAILURE_SECONDS: Final = 3.0


class LaneFailures:
    """Latest failure of each lane. `now`: returns the current time in monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.by_lane: dict[Lane, LaneFailure] = {}
        self._now = now

    def note(
        self,
        lane: Lane,
        side: PauseCause,
        sentence: str,
        seconds: float = FAILURE_SECONDS,
        since: float | None = None,
    ) -> None:
        """Keep a failure of a lane that is retried. A response is expected within `seconds`. `since`: start
        of the failed operation (monotonic seconds), by default now."""
        now = self._now()
        known = self.by_lane.get(lane)
        if known is None or now > known.until:
            self.by_lane[lane] = LaneFailure(sentence, now if since is None else since, now + seconds, side)
        else:
            known.sentence, known.until, known.side = sentence, now + seconds, side

    def forget(self, lane: Lane, side: PauseCause | None = None) -> None:
        """Clear the lane's failure. With `side`, clear only a failure of that cluster."""
        known = self.by_lane.get(lane)
        if known is not None and side in (None, known.side):
            del self.by_lane[lane]
