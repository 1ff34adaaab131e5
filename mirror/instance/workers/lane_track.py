"""What a lane has reported, kept at a price that hardly grows with the number of lanes.

Most reports are of lanes that are in time: their position has moved on, what waits is young, and nothing of
it is hidden. Of these the report itself is kept, and no history is made: `LaneTrack.history` makes it from
the last few when somebody asks, exactly as if each had been taken in by `LaneHistory.after`
(`tests/property/mirror/instance/test_lane_track.py`). Every other report is taken in at once.
"""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.model.movement.history import (
    LATE_MS,
    LEAST_SECONDS,
    MOST_IN_TIME,
    NO_HISTORY,
    UNKNOWN_RETENTION,
    LaneHistory,
    LanePosition,
    Waypoint,
)
from mirror.worker.protocol import LaneRate

_Step = tuple[float, int | None, LanePosition | Waypoint | None]
"""A moment in monotonic seconds, and what was reported then: the age of what waits, and the position; or both
in one. None: nothing was, it only takes a place."""
_BEFORE_ALL: Final[_Step] = (-inf, None, None)


class LaneTrack:
    """Written by one thread, read by any. `rate`: the last report; None where there is none, or it is no
    news. `may_lose`: whether anything is known that lets the source delete what was not copied. `loss_look`:
    for who judges the time to loss: when it has done so last, in monotonic seconds, and
    what it has found."""

    __slots__ = (
        "_checkpoint",
        "_kept",
        "_sized",
        "_start",
        "_steps",
        "_waits",
        "loss_look",
        "may_lose",
        "rate",
    )

    def __init__(self, history: LaneHistory = NO_HISTORY, rate: LaneRate | None = None) -> None:
        self.rate = rate
        self.loss_look: tuple[float, float | None] = (-inf, None)
        newest = history.newest
        self._checkpoint, self._start, self._waits = -1, -1, False
        if newest is not None:
            self._checkpoint, self._start, self._waits = (
                newest.checkpoint,
                newest.log_start,
                newest.waiting > 0,
            )
        self._keep(history)

    def _keep(self, history: LaneHistory) -> None:
        self._steps = _steps_of(history)
        self._kept = (history, self._steps)
        self._sized: LaneRate | None = None  # the newest report that is not in the history
        self.may_lose = len(history.starts) > 2 or history.retention != UNKNOWN_RETENTION

    def silenced(self) -> LaneTrack:
        """The same history, and no report that is news."""
        return LaneTrack(self.history)

    def note(self, rate: LaneRate, now: float, heard_at: float | None) -> None:
        """Take in a report. `heard_at`: as of `LaneHistory.after`."""
        self.rate = rate
        place = rate.position
        if place is None:
            return
        checkpoint, readable_end, end, log_start, retention, hidden_ms = place
        before, start = self._checkpoint, self._start
        self._checkpoint, self._start, self._waits = checkpoint, log_start, readable_end > checkpoint
        steps, age = self._steps, rate.lag_ms
        if (
            steps is not None
            and age is not None
            and age <= LATE_MS
            and checkpoint > before
            and (readable_end > checkpoint or end <= checkpoint)
            and log_start == start
            and retention == UNKNOWN_RETENTION
            and rate.messages_per_second
            and (heard_at is None or heard_at <= steps[-1][0])
        ):
            self._sized = rate
            if now - steps[-2][0] < LEAST_SECONDS:
                steps[-1] = (now, age, place)
            else:
                steps.append((now, age, place))
                if len(steps) > MOST_IN_TIME:
                    del steps[0]
            return
        waypoint = Waypoint(now, checkpoint, readable_end, end, age, log_start, hidden_ms)
        self._keep(self.history.after(waypoint, heard_at, retention, _record_bytes(rate)))

    @property
    def history(self) -> LaneHistory:
        """How the lane has moved."""
        history, steps = self._kept
        if steps is None:
            return history
        recent, rate = tuple(steps)[-MOST_IN_TIME:], self._sized
        if not isinstance(recent[-1][2], LanePosition):
            return history
        waypoints = tuple(made for one in recent if (made := _waypoint(one)) is not None)
        return LaneHistory(
            waypoints,
            stuck_since=waypoints[-1].at if waypoints[-1].waiting else None,
            retention=history.retention,
            record_bytes=(rate and _record_bytes(rate)) or history.record_bytes,
            starts=history.starts,
        )

    def is_in_time(self, now: float, silence_seconds: float) -> bool:
        """Whether nothing was late, hidden, unknown or done once more at the last report, and that holds: a
        lane of which records wait says so again within `silence_seconds`. False also where it is not easily
        seen."""
        steps = self._steps
        return steps is not None and (not self._waits or now - steps[-1][0] <= silence_seconds)


def _steps_of(history: LaneHistory) -> list[_Step] | None:
    """What further reports of a lane in time are added to; None of one that is not."""
    if not history.waypoints or not history.is_in_time:
        return None
    return [_BEFORE_ALL, *((one.at, one.lag_ms, one) for one in history.waypoints)][-MOST_IN_TIME:]


def _waypoint(step: _Step) -> Waypoint | None:
    at, age, place = step
    if not isinstance(place, LanePosition):
        return place
    checkpoint, readable_end, end, log_start, _, hidden_ms = place
    return Waypoint(at, checkpoint, readable_end, end, age, log_start, hidden_ms)


def _record_bytes(rate: LaneRate) -> float | None:
    return rate.bytes_per_second / rate.messages_per_second if rate.messages_per_second else None
