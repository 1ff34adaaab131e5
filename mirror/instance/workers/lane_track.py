"""What a lane has reported, kept at a price that hardly grows with the number of lanes.

Most reports are of lanes that are in time: their position has moved on, what waits is young, and nothing of
it is hidden. Workers do not say the positions of these (`PositionWatch`, which alone decides which they are),
but send the last few with the next one that is different. So `history` is as if each had been taken in by
`LaneHistory.after` (`tests/property/mirror/instance/test_lane_track.py`).
"""

from __future__ import annotations

from math import inf

from mirror.model.datastreams.lanes import Unanswered
from mirror.model.movement.history import (
    NO_HISTORY,
    UNKNOWN_RETENTION,
    LaneHistory,
    LanePosition,
    Waypoint,
)
from mirror.model.movement.loss import seconds_to_loss
from mirror.worker.protocol import LaneRate


class LaneTrack:
    """Written by one thread, read by any. `history`: how the lane has moved, as far as that was said. `rate`:
    the last report; None where there is none, or it is no news. `calm_at`: of a lane in time of which records
    wait the moment of that report in monotonic seconds, and infinite where none wait, or its worker would say
    if it were not in time any more; minus infinity of every other. `may_lose`: whether anything is known that
    lets the source delete what was not copied. `unanswered`: what it waited for at the last report; None
    where no answer was overdue. `moved_at`: when it reported last that it copied records or that some wait,
    minus infinity where it never did."""

    __slots__ = (
        "_is_watched",
        "_loss_look",
        "calm_at",
        "history",
        "may_lose",
        "moved_at",
        "rate",
        "unanswered",
    )

    def __init__(self, history: LaneHistory = NO_HISTORY, rate: LaneRate | None = None) -> None:
        self.rate = rate
        self.moved_at = -inf
        self.unanswered: Unanswered | None = None
        self._loss_look = NO_HISTORY, inf
        self._keep(history, is_watched=False)

    def _keep(self, history: LaneHistory, *, is_watched: bool) -> None:
        newest = history.newest
        self.history = history
        self.may_lose = len(history.starts) > 2 or history.retention != UNKNOWN_RETENTION
        is_calm = newest is not None and history.is_in_time
        self._is_watched = is_watched and is_calm
        self.calm_at = -inf
        if newest is not None and is_calm:
            self.calm_at = newest.at if newest.waiting and not is_watched else inf

    def silenced(self) -> LaneTrack:
        """The same history, and no report that is news."""
        silent = LaneTrack()
        silent._keep(self.history, is_watched=self._is_watched)
        silent.moved_at = self.moved_at
        return silent

    def unwatch(self, heard_at: float) -> None:
        """The worker says nothing: what it would have said is known up to that moment only."""
        if self._is_watched:
            self._is_watched, self.calm_at = False, heard_at

    def note(self, rate: LaneRate, now: float, heard_at: float | None) -> None:
        """Take in a report. `heard_at`: as of `LaneHistory.after`."""
        before, self.rate, self.unanswered = self.rate, rate, None
        if rate.messages_per_second > 0 or rate.lag_records > 0:
            self.moved_at = now
        place = rate.position
        if place is None:
            return
        history = self.history
        if place.withheld and history.waypoints and history.is_in_time:
            each = _record_bytes(before) if before else None
            history = history.after_calm(place.withheld, place.starts, each)
        waypoint = _waypoint(place, now, rate.lag_ms)
        history = history.after(waypoint, heard_at, place.retention, _record_bytes(rate))
        self._keep(history, is_watched=place.is_watched)

    def loss_at(self) -> float:
        """When the source deletes the first record that was not copied, in monotonic seconds; infinite where
        nothing is known of that. It is looked for once for each history."""
        if not self.may_lose:
            return inf
        history, (looked_by, found) = self.history, self._loss_look
        if looked_by is not history:
            at = history.newest.at if history.newest is not None else 0.0
            left = seconds_to_loss(history, at)
            found = inf if left is None else at + left
            self._loss_look = history, found
        return found

    def is_in_time(self, now: float, silence_seconds: float) -> bool:
        """Whether nothing was late, hidden, unknown or done once more at the last report, and that holds: a
        lane of which records wait says so again within `silence_seconds`. False also where it is not easily
        seen."""
        return now - self.calm_at <= silence_seconds


def _waypoint(place: LanePosition, now: float, lag_ms: int | None) -> Waypoint:
    return Waypoint(
        now,
        place.checkpoint,
        place.readable_end,
        place.end,
        lag_ms,
        place.log_start,
        place.hidden_ms,
        place.life,
    )


def _record_bytes(rate: LaneRate) -> float | None:
    return rate.bytes_per_second / rate.messages_per_second if rate.messages_per_second else None
