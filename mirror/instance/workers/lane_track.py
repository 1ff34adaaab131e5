"""What a lane has reported, kept at a price that hardly grows with the number of lanes.

Most reports are of lanes that are in time: their position has moved on, what waits is young, and nothing of
it is hidden. Workers do not say the positions of these (`PositionWatch`), but send the last few with the next
one that is different. Where one is said, the report itself is kept, and no history is made:
`LaneTrack.history` makes it from the last few when somebody asks, exactly as if each had been taken in by
`LaneHistory.after` (`tests/property/mirror/instance/test_lane_track.py`). Every other report is taken in at
once.
"""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.model.movement.history import (
    LATE_MS,
    LEAST_SECONDS,
    MOST_IN_TIME,
    MOST_STARTS,
    NO_HISTORY,
    UNKNOWN_RETENTION,
    CalmStep,
    LaneHistory,
    LanePosition,
    LogStart,
    Waypoint,
)
from mirror.worker.protocol import LaneRate

_Step = tuple[float, int | None, LanePosition | Waypoint | None]
"""A moment in monotonic seconds, and what was reported then: the age of what waits, and the position; or both
in one. None: nothing was, it only takes a place."""
_BEFORE_ALL: Final[_Step] = (-inf, None, None)
_MOST_STEPS: Final = 2 * MOST_IN_TIME
"""That are kept, so that they are cut seldom."""


class LaneTrack:
    """Written by one thread, read by any. `rate`: the last report; None where there is none, or it is no
    news. `calm_at`: of a lane in time of which records wait the moment of that report in monotonic seconds,
    and infinite where none wait, or its worker would say if it were not in time any more; minus infinity of
    every other. `may_lose`: whether anything is known that
    lets the source delete what was not copied. `loss_look`: for who judges the time to loss: when it has done
    so last, in monotonic seconds, and what it has found."""

    __slots__ = (
        "_before",
        "_checkpoint",
        "_is_watched",
        "_kept",
        "_newest",
        "_sized",
        "_start",
        "_steps",
        "calm_at",
        "loss_look",
        "may_lose",
        "rate",
    )

    def __init__(self, history: LaneHistory = NO_HISTORY, rate: LaneRate | None = None) -> None:
        self.rate = rate
        self.loss_look: tuple[float, float | None] = (-inf, None)
        self._is_watched = False
        self._keep(history)

    def _keep(self, history: LaneHistory) -> None:
        newest, steps = history.newest, _steps_of(history)
        self._steps = steps or []
        self._kept = (history, steps, history.starts)
        self._sized: LaneRate | None = None  # the newest report that is not in the history
        self.may_lose = len(history.starts) > 2 or history.retention != UNKNOWN_RETENTION
        # What the next report is compared with. Of a lane that is not in time no checkpoint is large enough.
        self._checkpoint, self._start, self.calm_at = inf, -1, -inf
        self._before = self._newest = -inf  # moments of the last two steps
        if newest is not None and steps is not None:
            self._checkpoint, self._start = newest.checkpoint, newest.log_start
            self._before, self._newest = steps[-2][0], newest.at
            self.calm_at = newest.at if newest.waiting else inf

    def silenced(self) -> LaneTrack:
        """The same history, and no report that is news."""
        silent = LaneTrack(self.history)
        if self._is_watched:
            silent._watch()
        return silent

    def _watch(self) -> None:
        self._is_watched, self.calm_at = True, inf

    def unwatch(self, heard_at: float) -> None:
        """The worker says nothing: what it would have said is known up to that moment only."""
        if self._is_watched:
            self._is_watched, self.calm_at = False, heard_at

    def note(self, rate: LaneRate, now: float, heard_at: float | None) -> None:
        """Take in a report. `heard_at`: as of `LaneHistory.after`."""
        before, self.rate = self.rate, rate
        place = rate.position
        if place is None:
            return
        if place.withheld and self._kept[1] is not None:
            self._catch_up(place.withheld, before)
        self._note(rate, place, now, heard_at)
        self._is_watched = place.is_watched and self.calm_at > -inf
        if self._is_watched:
            self.calm_at = inf

    def _note(self, rate: LaneRate, place: LanePosition, now: float, heard_at: float | None) -> None:
        checkpoint, readable_end, end, log_start, retention, hidden_ms, _, _ = place
        age = rate.lag_ms
        # Forty thousand a second pass here in a large fleet: what is not written as one would is quicker.
        if (
            checkpoint > self._checkpoint
            and age is not None
            and age <= LATE_MS
            and (readable_end > checkpoint or end <= checkpoint)
            and (retention is UNKNOWN_RETENTION or retention == UNKNOWN_RETENTION)
            and rate.messages_per_second
            and (heard_at is None or heard_at <= self._newest)
            and (log_start == self._start or self._has_moved_on(log_start, now))
        ):
            steps = self._steps
            if now - self._before < LEAST_SECONDS:
                steps[-1] = (now, age, place)
            else:
                steps.append((now, age, place))
                self._before = self._newest
                if len(steps) > _MOST_STEPS:
                    del steps[:-MOST_IN_TIME]
            self._checkpoint, self._newest, self._sized = checkpoint, now, rate
            self.calm_at = now if readable_end > checkpoint else inf
            return
        waypoint = Waypoint(now, checkpoint, readable_end, end, age, log_start, hidden_ms)
        self._keep(self.history.after(waypoint, heard_at, retention, _record_bytes(rate)))

    def _catch_up(self, withheld: tuple[CalmStep, ...], last: LaneRate | None) -> None:
        """With positions of a lane in time that its worker has not said one by one. `last`: what was reported
        with the last of them."""
        for at, checkpoint, end, age in withheld:
            if at - self._before < LEAST_SECONDS:
                self._steps.pop()
            else:
                self._before = self._newest
            self._steps.append((at, age, LanePosition(checkpoint, end, end, self._start)))
            self._checkpoint, self._newest = checkpoint, at
            self._sized = last or self._sized
        del self._steps[:-MOST_IN_TIME]

    def _has_moved_on(self, log_start: int, now: float) -> bool:
        """Whether retention has deleted what was copied, of which note is taken then."""
        if not log_start > self._start >= 0:
            return False
        history, steps, starts = self._kept
        starts = (*starts, LogStart(now, log_start))[-MOST_STARTS:]
        self._kept = (history, steps, starts)
        self._start = log_start
        self.may_lose = self.may_lose or len(starts) > 2
        return True

    @property
    def history(self) -> LaneHistory:
        """How the lane has moved."""
        history, steps, starts = self._kept
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
            starts=starts,
        )

    def is_in_time(self, now: float, silence_seconds: float) -> bool:
        """Whether nothing was late, hidden, unknown or done once more at the last report, and that holds: a
        lane of which records wait says so again within `silence_seconds`. False also where it is not easily
        seen."""
        return now - self.calm_at <= silence_seconds


def _steps_of(history: LaneHistory) -> list[_Step] | None:
    """What further reports of a lane in time are added to; None of one that is not."""
    if not history.waypoints or not history.is_in_time:
        return None
    return [_BEFORE_ALL, *((one.at, one.lag_ms, one) for one in history.waypoints)][-MOST_IN_TIME:]


def _waypoint(step: _Step) -> Waypoint | None:
    at, age, place = step
    if not isinstance(place, LanePosition):
        return place
    checkpoint, readable_end, end, log_start, _, hidden_ms, _, _ = place
    return Waypoint(at, checkpoint, readable_end, end, age, log_start, hidden_ms)


def _record_bytes(rate: LaneRate) -> float | None:
    return rate.bytes_per_second / rate.messages_per_second if rate.messages_per_second else None
