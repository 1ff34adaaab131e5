"""Which positions of a lane need not be said, because nothing in them is worth a look. Pure.

Most reports are of lanes that are in time: their position has moved on, what waits is young, and nothing of
it is hidden. After one that its instance has heard of, such positions stay here, the last few of them, until
one is different: then they go with it. So the instance knows all that the rules of
`mirror.model.movement.history` look at, as if each had been said (`LaneTrack`;
`tests/property/mirror/instance/test_lane_track.py`).
"""

from __future__ import annotations

from typing import Final

from mirror.model.movement.history import (
    LATE_MS,
    LEAST_SECONDS,
    MOST_IN_TIME,
    SILENCE_SECONDS,
    CalmStep,
    LanePosition,
)

_NEVER: Final = -1e300
_STARTS: Final = 2
"""Moves of the log's start, from which on the time to loss is judged by the position."""
_SAID_AGAIN_SECONDS: Final = 60.0
"""Positions of lanes that have a time to loss are said so often at least."""
_NO_AGE: Final = -1


class PositionWatch:
    """Of one lane, from its first report on. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._turn = -1
        self._at = self._before = self._said_at = _NEVER
        """Of the last report, of the last waypoint but one, and of the last position that was said."""
        self._checkpoint = self._reached = self._log_start = -1
        self._starts = 0
        self._is_fine = self._is_caught_up = self._may_lose = False
        self._steps: list[tuple[float, int, int, int]] = []

    def turn(self, number: int) -> None:
        """The lane is in that turn: of a new one the first position is said."""
        if number != self._turn:
            self._turn, self._is_fine = number, False

    def forget(self) -> None:
        """Say the next position, because what was said of the lane is not known any more."""
        self._is_fine = False

    def withholds(
        self,
        moments: tuple[float, float],
        checkpoint: int,
        readable_end: int,
        end: int,
        log_start: int,
        lag_ms: int | None,
        records: int,
    ) -> bool:
        """Take in a report; whether its position need not be said. `moments`: of this report, and of the one
        before of the worker, with or without this lane. `records`: copied between them. The others are as of
        `LanePosition` and `Waypoint`."""
        at, heard_at = moments
        age = _NO_AGE if lag_ms is None else lag_ms
        is_next = heard_at <= self._at
        if not is_next and self._is_caught_up:
            self._pass(heard_at)
        was_fine, before, start = self._is_fine, self._checkpoint, self._log_start
        if start >= 0 and log_start > start:
            self._starts += 1
        if checkpoint > self._reached:
            self._reached = checkpoint
        self._is_fine = 0 <= age <= LATE_MS and readable_end >= end and checkpoint >= self._reached
        self._is_caught_up = age >= 0 and checkpoint >= readable_end
        is_replaced = at - self._before < LEAST_SECONDS
        is_calm = (
            self._is_fine
            and was_fine
            and is_next
            and checkpoint > before
            and log_start == start
            and records > 0
            and at - self._at <= SILENCE_SECONDS
            and (at - self._said_at < _SAID_AGAIN_SECONDS or not (self._may_lose or self._starts >= _STARTS))
        )
        self._pass(at)
        self._checkpoint, self._log_start = checkpoint, log_start
        if not is_calm:
            return False
        steps = self._steps
        if is_replaced and steps:
            steps[-1] = (at, checkpoint, end, age)
        else:
            steps.append((at, checkpoint, end, age))
            if len(steps) > 2 * MOST_IN_TIME:
                del steps[:-MOST_IN_TIME]
        return True

    def _pass(self, at: float) -> None:
        """As waypoints are spaced."""
        if at - self._before >= LEAST_SECONDS:
            self._before = self._at
        self._at = at

    def said(self, place: LanePosition) -> LanePosition:
        """The position of the last report, with those that were withheld before it."""
        withheld = tuple([CalmStep(*one) for one in self._steps[-MOST_IN_TIME:]])
        self._steps.clear()
        self._said_at = self._at
        if place.retention.milliseconds is not None or place.retention.size_bytes is not None:
            self._may_lose = True
        return place._replace(withheld=withheld, is_watched=self._is_fine)
