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
    most = max(one.waiting for one in waypoints)
    peak = max(number for number, one in enumerate(waypoints) if one.waiting == most)
    since = waypoints[peak:]
    if len(since) > _LEAST_FALLS + 1:
        since = since[1:]  # the turn lies between the first two
    steps = [((one.waiting - two.waiting), two.at - one.at) for one, two in pairwise(since)]
    if not steps:
        return None
    seconds = sum(length for _, length in steps)
    mean = sum(fall for fall, _ in steps) / seconds
    if len(steps) < _LEAST_FALLS:
        return Approach(mean, False)
    spread = sqrt(sum(length * (fall / length - mean) ** 2 for fall, length in steps) / seconds)
    return Approach(mean, mean > _CERTAINTY * spread / sqrt(len(steps) - 1))


def eta_seconds(waypoints: Sequence[Waypoint], now: float) -> float | None:
    """Until nothing waits, if it continues like that; None where what waits does not become less, or too
    little is known."""
    found = approach(waypoints)
    if found is None or not found.is_certain or found.per_second <= 0:
        return None
    newest = waypoints[-1]
    return max(newest.waiting / found.per_second - (now - newest.at), 0.0)
