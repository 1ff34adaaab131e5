"""How quickly a lane comes nearer to the end of its source, and when it is there."""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

from mirror.model.movement.history import LaneHistory

_LEAST_FALLS: Final = 4
_CERTAINTY: Final = 2.0
"""How often the mean fall exceeds its own error before it counts: a dip in a lag that grows is no trend."""


class Approach(NamedTuple):
    """Offsets by which what waits becomes less in a second, on average. `is_certain`: chance does not explain
    it. `since`: the moment of the most that waited, in monotonic seconds."""

    per_second: float
    is_certain: bool
    since: float


def approach(history: LaneHistory) -> Approach | None:
    """Since the most waited within the window: what was before, such as an outage, says nothing of what is
    now. None where that is the newest waypoint."""
    waits, waypoints = history.waits, history.waypoints
    peak = len(waits) - 1 - waits[::-1].index(max(waits))
    if len(waits) - peak > _LEAST_FALLS + 1:
        peak += 1  # the turn lies between the first two
    steps = len(waits) - 1 - peak
    if steps < 1:
        return None
    seconds, fallen = waypoints[-1].at - waypoints[peak].at, waits[peak] - waits[-1]
    mean = fallen / seconds
    if steps < _LEAST_FALLS:
        return Approach(mean, False, waypoints[peak].at)
    # The sum of (fall - mean * length)^2 / length.
    squares = max(sum(history.unrest[peak:]) - mean * fallen, 0.0)
    is_certain = mean > _CERTAINTY * sqrt(squares / seconds) / sqrt(steps - 1)
    return Approach(mean, is_certain, waypoints[peak].at)


def eta_seconds(found: Approach | None, history: LaneHistory, now: float) -> float | None:
    """Until nothing waits, if it continues like that; None where what waits does not become less, or too
    little is known. `found`: the approach of that history."""
    if found is None or not found.is_certain or found.per_second <= 0:
        return None
    return max(history.waits[-1] / found.per_second - (now - history.waypoints[-1].at), 0.0)
