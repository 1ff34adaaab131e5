"""Divides time windows into pieces of one minute, ten minutes, one hour or one day. Pure.

The sum of a window is the sum of its pieces. Each piece is queried once, and different windows share pieces.
A window of a month therefore needs only a few dozen sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

_HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = (24 * _HOUR_MS, _HOUR_MS, 600_000, 60_000)
_PARTS: Final = 24
"""Number of steps into which a window is divided.

A window starts on a multiple of its step, up to 1/24 of its length early.
"""
_SEEN_AFTER_MS: Final = 20_000
"""Time in ms by which windows that are too short for whole minutes start later.

An alert then resolves within the length of its window after the end of the cause. The last bad report arrives
up to 5 s after this end, and queries are up to 15 s apart.
"""
_MOST_OF_IT: Final = 4
"""Divisor of a window's length: a short window starts at most 1/4 of its length late."""


class TimeRangePiece(NamedTuple):
    """A piece of a time window, in epoch ms.

    The piece includes measurements at `until_ms`, but not those at `since_ms`, which cover the time before.
    """

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Length of the range in milliseconds."""
        return self.until_ms - self.since_ms


def pieces_of(now_ms: int, seconds: int) -> tuple[TimeRangePiece, ...]:
    """Divide a window that ends now into pieces, and return them oldest first.

    Each piece is one step long, except the last piece, and the first piece of a short window.
    """
    first = _first_step(seconds * 1_000)
    begin_ms = now_ms - _least_ms(seconds)
    at_ms = begin_ms // first * first if first else begin_ms
    found = []
    while at_ms < now_ms:
        steps = (step for step in _STEPS_MS if at_ms % step == 0 and at_ms + step <= now_ms)
        whole = next(steps, _STEPS_MS[-1] - at_ms % _STEPS_MS[-1])
        until_ms = min(at_ms + whole, now_ms)
        found.append(TimeRangePiece(at_ms, until_ms))
        at_ms = until_ms
    return tuple(found)


@cache
def looked_at_seconds(seconds: int) -> float:
    """Return the number of seconds that the pieces of a window cover at least. For a long window, up to 1/24
    more."""
    return _least_ms(seconds) / 1_000


def reaches_of(windows: Iterable[int]) -> Mapping[int, int]:
    """Map the length of a piece (ms) to the time for which to cache such pieces (ms).

    Minutes are cached for the length of a one-hour window, because such a window starts with single minutes.
    Hours are not cached, because there would be many, and each would be needed again only once a day.
    """
    lengths = [seconds * 1_000 for seconds in windows]
    return {
        step: max((length + step for length in lengths if (_first_step(length) or step) <= step), default=0)
        for step in _STEPS_MS
        if step < _HOUR_MS
    }


def _least_ms(seconds: int) -> int:
    length_ms = seconds * 1_000
    return length_ms if _first_step(length_ms) else length_ms - min(_SEEN_AFTER_MS, length_ms // _MOST_OF_IT)


def _first_step(length_ms: int) -> int | None:
    return next((step for step in _STEPS_MS if step * _PARTS <= length_ms), None)
