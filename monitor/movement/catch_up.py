"""Estimates how fast a lane catches up, and when it will have caught up."""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

from mirror.model.movement.history import LaneHistory

_LEAST_FALLS: Final = 4
_CERTAINTY: Final = 2.0
"""Minimum ratio of the mean decrease to its standard error.

A dip in a growing lag does not count as catching up.
"""


class CatchUpRate(NamedTuple):
    """Mean decrease of a lane's backlog in offsets per second. `is_certain`: the decrease is statistically
    significant. `since`: time of the largest backlog, in monotonic seconds."""

    per_second: float
    is_certain: bool
    since: float


def approach(history: LaneHistory) -> CatchUpRate | None:
    """Return the decrease of a lane's backlog since its largest value.

    Earlier reports, for example from an outage, are ignored. Returns None if the latest value is the largest,
    or if no time has passed since then.
    """
    waits, waypoints = history.waits, history.waypoints
    peak = len(waits) - 1 - waits[::-1].index(max(waits))
    if len(waits) - peak > _LEAST_FALLS + 1:
        peak += 1  # the turning point is between the first two
    steps = len(waits) - 1 - peak
    seconds, fallen = waypoints[-1].at - waypoints[peak].at, waits[peak] - waits[-1]
    if steps < 1 or seconds <= 0:
        return None
    mean = fallen / seconds
    if steps < _LEAST_FALLS:
        return CatchUpRate(mean, False, waypoints[peak].at)
    # The sum of (fall - mean * length)^2 / length.
    squares = max(sum(history.unrest[peak:]) - mean * fallen, 0.0)
    is_certain = mean > _CERTAINTY * sqrt(squares / seconds) / sqrt(steps - 1)
    return CatchUpRate(mean, is_certain, waypoints[peak].at)


def eta_seconds(found: CatchUpRate | None, history: LaneHistory, now: float) -> float | None:
    """Return the seconds until the backlog is empty at the current rate, or None if it does not shrink.

    `found`: result of `approach` for the same history.
    """
    if found is None or not found.is_certain or found.per_second <= 0:
        return None
    return max(history.waits[-1] / found.per_second - (now - history.waypoints[-1].at), 0.0)
