"""Decides which positions of a lane a worker reports to its instance. Pure.

Most positions are uneventful: the lane has advanced, waiting records are young, and no transaction is open.
After one uneventful position, the worker withholds further ones. A worker keeps the last few positions, and
sends them with the next eventful position. The instance can then apply the rules of
`mirror.model.movement.history` as if every position had been reported (`LaneTrack`;
`tests/property/mirror/instance/test_lane_track.py`).

If the source may delete records before they are copied, the time to loss is evaluated as in
`mirror.model.movement.loss`. While a loss is near, positions are reported often.
"""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.model.movement.history import (
    LATE_MS,
    LEAST_SECONDS,
    MOST_IN_TIME,
    MOST_STARTS,
    SILENCE_SECONDS,
    UNKNOWN_RETENTION,
    CaughtUpPosition,
    LanePosition,
    LogStart,
    starts_with,
)
from mirror.model.movement.loss import left_by_movement, left_by_size, left_by_time

_LATE_MS: Final[int] = LATE_MS
_LEAST_SECONDS: Final[float] = LEAST_SECONDS
_SILENCE_SECONDS: Final[float] = SILENCE_SECONDS
_MOST_STEPS: Final[int] = MOST_IN_TIME
"""Copies of imported constants, which compiled code accesses faster."""
_NEVER: Final = -1e300
_LEAST_STARTS: Final = 3
"""Minimum number of known log starts for an estimate of the time to loss by movement."""
_FAR_SECONDS: Final = 1_800.0
"""Time to loss in seconds above which positions need not be reported often."""
_LOOK_SECONDS: Final = 60.0
_LOOK_SHARE: Final = 0.01
_MOST_LOOK_SECONDS: Final = 600.0
"""Maximum seconds between evaluations of the time to loss.

The interval is `_LOOK_SHARE` of the time to loss, and at least `_LOOK_SECONDS`. While a loss is near, each
evaluation reports the position.
"""
_REPORT_AGAIN_SECONDS: Final = 600.0
_REPORT_AGAIN_SHARE: Final = 0.1
"""Share of the time to loss after which a reported value is refreshed, at the earliest after
`_REPORT_AGAIN_SECONDS`."""
_NO_AGE: Final = -1


class _MutablePosition:
    """Mutable counterpart of `CaughtUpPosition`, reused to save memory."""

    __slots__ = ("age", "at", "checkpoint", "end", "log_start")

    def __init__(self) -> None:
        self.at = _NEVER
        self.checkpoint = self.end = self.log_start = -1
        self.age = _NO_AGE

    def position(self) -> CaughtUpPosition:
        return CaughtUpPosition(self.at, self.checkpoint, self.end, self.age, self.log_start)


class PositionWatch:
    """Decides which positions of one lane its worker reports. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._generation = self._life = -1
        self._at = self._before = self._reported_at = _NEVER
        """Times of the last measurement, of the second to last waypoint, and of the last reported
        position."""
        self._checkpoint = self._reached = self._end = self._log_start = -1
        self._age = _NO_AGE
        self._is_fine = self._is_caught_up = False
        self._steps: list[_MutablePosition] = []
        self._withheld = 0
        """Number of positions withheld since the last report. The last few are in the ring buffer
        `_steps`."""
        self._moves: list[LogStart] = []
        """Moves of the log start that are not reported yet."""
        self._starts: tuple[LogStart, ...] = ()
        """Log starts that were reported, followed by those that are not reported yet."""
        self._retention = UNKNOWN_RETENTION
        self._may_lose = self._is_near = self._is_known = False
        self._was_known = False
        """True if the instance may have derived a time to loss from the last report."""
        self._looked_at = self._look_at = _NEVER
        """Times of the last and the next evaluation of the time to loss."""
        self._looked_end = 0

    def set_generation(self, generation: int, life: int) -> None:
        """Set the lane's generation, and `life` of `LanePosition`. After a change of either, the next
        position is reported."""
        if life != self._life:
            self._life, self._reached = life, -1
            self.forget()
        if generation != self._generation:
            self._generation = generation
            self.forget()

    def forget(self) -> None:
        """Require a report of the next position, because the instance no longer has the earlier positions."""
        self._is_fine, self._starts = False, ()

    def withholds(
        self,
        moments: tuple[float, float],
        checkpoint: int,
        readable_end: int,
        end: int,
        log_start: int,
        lag_ms: int | None,
        copied: tuple[int, int],
    ) -> bool:
        """Handle a new position of the lane. Return whether it need not be reported now.

        `moments`: times of this report and of the worker's previous report, even if it omitted this lane.
        `copied`: records and bytes copied between these times. All other arguments are as in `LanePosition`.
        """
        at, answered_at = moments
        age = _NO_AGE if lag_ms is None else lag_ms
        if answered_at > self._at and self._is_caught_up:
            self._pass(answered_at, is_withheld=self._is_fine)  # nothing to report until then
        was_fine, before, start = self._is_fine, self._checkpoint, self._log_start
        if checkpoint > self._reached:
            self._reached = checkpoint
        self._is_fine = 0 <= age <= _LATE_MS and readable_end >= end and checkpoint >= self._reached
        self._is_caught_up = age >= 0 and checkpoint >= readable_end
        has_moved = log_start != start
        is_quiet = (
            self._is_fine
            and was_fine
            and answered_at <= self._at
            and checkpoint > before
            and copied[0] > 0
            and at - self._at <= _SILENCE_SECONDS
            and not (has_moved and (not log_start > start >= 0 or len(self._starts) < _LEAST_STARTS))
        )
        if has_moved:
            self._move(at, log_start)
        if is_quiet and self._may_lose and self._is_due(at, checkpoint, end, age, copied, has_moved):
            is_quiet = False
        if is_quiet and has_moved:
            self._moves.append(self._starts[-1])
        self._checkpoint, self._end, self._age, self._log_start = checkpoint, end, age, log_start
        self._pass(at, is_quiet)
        return is_quiet

    def _pass(self, at: float, is_withheld: bool) -> None:
        """Advance the waypoints to a position. Also stores the position if it is withheld."""
        is_replaced = at - self._before < _LEAST_SECONDS
        if not is_replaced:
            self._before = self._at
        self._at = at
        if not is_withheld:
            return
        if not (is_replaced and self._withheld):
            self._withheld += 1
            if len(self._steps) < _MOST_STEPS and self._withheld > len(self._steps):
                self._steps.append(_MutablePosition())
        step = self._steps[(self._withheld - 1) % _MOST_STEPS]
        step.at, step.checkpoint, step.end = at, self._checkpoint, self._end
        step.age, step.log_start = self._age, self._log_start

    def _move(self, at: float, log_start: int) -> None:
        self._starts = starts_with(self._starts, at, log_start)
        if len(self._starts) >= _LEAST_STARTS:
            self._may_lose = True

    def _is_due(
        self, at: float, checkpoint: int, end: int, age: int, copied: tuple[int, int], has_moved: bool
    ) -> bool:
        """Return whether the position must be reported because the time to loss is short or unknown."""
        if at < self._look_at:
            return has_moved and self._is_near
        since, before = self._looked_at, self._looked_end
        if since == _NEVER:
            since, before = self._at, self._end
        each, waiting = copied[1] / copied[0], end - checkpoint
        left = min(
            _or_ever(left_by_time(self._retention, age)),
            _or_ever(left_by_size(self._retention, waiting, end - before, at - since, each)),
            _or_ever(left_by_movement(self._starts, checkpoint, at)),
        )
        self._looked_at, self._looked_end = at, end
        self._look_at = at + min(max(left * _LOOK_SHARE, _LOOK_SECONDS), _MOST_LOOK_SECONDS)
        self._is_near = left < _FAR_SECONDS
        self._is_known = left < inf
        if not self._is_known:
            return self._was_known
        return self._is_near or at - self._reported_at >= max(
            _REPORT_AGAIN_SECONDS, left * _REPORT_AGAIN_SHARE
        )

    def report(self, place: LanePosition) -> LanePosition:
        """Return the position to report, extended by the positions that were withheld before it."""
        steps = range(max(self._withheld - _MOST_STEPS, 0), self._withheld)
        withheld = tuple([self._steps[step % _MOST_STEPS].position() for step in steps])
        starts = tuple(self._moves[-MOST_STARTS:])
        self._withheld = 0
        self._moves.clear()
        self._reported_at = self._at
        if place.retention != UNKNOWN_RETENTION:
            self._retention, self._may_lose = place.retention, True
        self._was_known = self._may_lose and (self._is_known or self._looked_at < self._at)
        if not (self._is_fine or withheld or starts):
            return place
        return place._replace(withheld=withheld, is_watched=self._is_fine, starts=starts)


def _or_ever(seconds: float | None) -> float:
    return inf if seconds is None else seconds
