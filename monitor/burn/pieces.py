"""Windows of the past as pieces that are asked for once: whole minutes, ten minutes, hours and days. Pure.

Sums over pieces are sums over the window, so the same minutes serve every window that holds them, and a month
is some dozens of numbers instead of all that was measured.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_STEPS_MS: Final = (86_400_000, 3_600_000, 600_000, 60_000)
_PARTS: Final = 24
"""A window begins up to a part of its length too early, at a whole step."""
_SHORT_STEP_MS: Final = 10_000
"""One for which a minute would be more than that begins up to so much too late: its alert ends in time."""


class Piece(NamedTuple):
    """A range of time, epoch milliseconds: a measurement at `until_ms` belongs to it, one at `since_ms` does
    not, as it speaks of the time before."""

    since_ms: int
    until_ms: int


def pieces_of(now_ms: int, seconds: int) -> tuple[Piece, ...]:
    """What a window that ends now consists of, oldest first. Only the last piece is not a whole step, and
    the first one of a short window."""
    length_ms = seconds * 1_000
    begin_ms = now_ms - length_ms
    first = next((step for step in _STEPS_MS if step * _PARTS <= length_ms), None)
    at_ms = begin_ms // first * first if first else -(-begin_ms // _SHORT_STEP_MS) * _SHORT_STEP_MS
    found = []
    while at_ms < now_ms:
        steps = (step for step in _STEPS_MS if at_ms % step == 0 and at_ms + step <= now_ms)
        whole = next(steps, _STEPS_MS[-1] - at_ms % _STEPS_MS[-1])
        until_ms = min(at_ms + whole, now_ms)
        found.append(Piece(at_ms, until_ms))
        at_ms = until_ms
    return tuple(found)
