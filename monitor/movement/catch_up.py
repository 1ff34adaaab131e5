"""How quickly a lane comes nearer to the end of its source, and when it is there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Final, NamedTuple

from mirror.model.movement.history import Waypoint

_LEAST_FALLS: Final = 4
_CERTAINTY: Final = 2.0
"""How often the mean fall exceeds its own error before it counts: a dip in a lag that grows is no trend."""


class Approach(NamedTuple):
    """Offsets by which what waits becomes less in a second, on average. `is_certain`: chance does not explain
    it."""

    per_second: float
    is_certain: bool


def approach(waypoints: Sequence[Waypoint]) -> Approach | None:
    """Since the most waited within the window: what was before, such as an outage, says nothing of what is
    now. None where that is the newest waypoint."""
    waits = [max(readable_end - checkpoint, 0) for _, checkpoint, readable_end, *_ in waypoints]
    peak = len(waits) - 1 - waits[::-1].index(max(waits))
    if len(waits) - peak > _LEAST_FALLS + 1:
        peak += 1  # the turn lies between the first two
    waits, moments = waits[peak:], [one.at for one in waypoints[peak:]]
    if len(waits) < 2:
        return None
    seconds = moments[-1] - moments[0]
    mean = (waits[0] - waits[-1]) / seconds
    steps = len(waits) - 1
    if steps < _LEAST_FALLS:
        return Approach(mean, False)
    squares = 0.0
    for (one, two), (first, second) in zip(pairwise(waits), pairwise(moments), strict=True):
        length = second - first
        off = one - two - mean * length
        squares += off * off / length
    return Approach(mean, mean > _CERTAINTY * sqrt(squares / seconds) / sqrt(steps - 1))


def eta_seconds(waypoints: Sequence[Waypoint], now: float) -> float | None:
    """Until nothing waits, if it continues like that; None where what waits does not become less, or too
    little is known."""
    found = approach(waypoints)
    if found is None or not found.is_certain or found.per_second <= 0:
        return None
    newest = waypoints[-1]
    return max(newest.waiting / found.per_second - (now - newest.at), 0.0)
