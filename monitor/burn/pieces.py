"""Windows of the past as pieces that are asked for once: whole minutes, ten minutes, hours and days. Pure.

Sums over pieces are sums over the window, so the same minutes serve every window that holds them, and a month
is some dozens of numbers instead of all that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

_HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = (24 * _HOUR_MS, _HOUR_MS, 600_000, 60_000)
_PARTS: Final = 24
"""A window begins up to a part of its length too early, at a whole step."""
_SEEN_AFTER_MS: Final = 20_000
"""One for which a minute would be more than that begins so much later than its length says, so that its alert
is over within that length after its cause: the last bad report comes up to 5 s after the cause has ended, and
the next look, with its answer, up to 15 s after the window has left it behind."""
_MOST_OF_IT: Final = 4
"""But by no more than this part of it."""


class Piece(NamedTuple):
    """A range of time, epoch milliseconds: a measurement at `until_ms` belongs to it, one at `since_ms` does
    not, as it speaks of the time before."""

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Milliseconds."""
        return self.until_ms - self.since_ms


def pieces_of(now_ms: int, seconds: int) -> tuple[Piece, ...]:
    """What a window that ends now consists of, oldest first. Only the last piece is not a whole step, and
    the first one of a short window."""
    first = _first_step(seconds * 1_000)
    begin_ms = now_ms - _least_ms(seconds)
    at_ms = begin_ms // first * first if first else begin_ms
    found = []
    while at_ms < now_ms:
        steps = (step for step in _STEPS_MS if at_ms % step == 0 and at_ms + step <= now_ms)
        whole = next(steps, _STEPS_MS[-1] - at_ms % _STEPS_MS[-1])
        until_ms = min(at_ms + whole, now_ms)
        found.append(Piece(at_ms, until_ms))
        at_ms = until_ms
    return tuple(found)


@cache
def looked_at_seconds(seconds: int) -> float:
    """How much of the past a window of that length looks at; a long one up to a part of it more."""
    return _least_ms(seconds) / 1_000


def reaches_of(windows: Iterable[int]) -> Mapping[int, int]:
    """For how long a piece may be needed again: by its length, both in milliseconds. A window of an hour is
    begun with minutes that were a part of ten minutes before. Only of short ones: hours would be many, and
    are needed again once a day."""
    lengths = [seconds * 1_000 for seconds in windows]
    return {
        step: max((one + step for one in lengths if (_first_step(one) or step) <= step), default=0)
        for step in _STEPS_MS
        if step < _HOUR_MS
    }


def _least_ms(seconds: int) -> int:
    length_ms = seconds * 1_000
    return length_ms if _first_step(length_ms) else length_ms - min(_SEEN_AFTER_MS, length_ms // _MOST_OF_IT)


def _first_step(length_ms: int) -> int | None:
    return next((step for step in _STEPS_MS if step * _PARTS <= length_ms), None)
