"""Windows of the past as pieces that are asked for once: whole minutes, ten minutes, hours and days. Pure.

Sums over pieces are sums over the window, so the same minutes serve every window that holds them, and a month
is some dozens of numbers instead of all that was measured.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_STEPS_MS: Final = (86_400_000, 3_600_000, 600_000, 60_000)
_PARTS: Final = 24
"""A window begins up to a part of its length too early, at a whole step."""


class Piece(NamedTuple):
    """A range of time, epoch milliseconds: a measurement at `until_ms` belongs to it, one at `since_ms` does
    not, as it speaks of the time before."""

    since_ms: int
    until_ms: int


def pieces_of(now_ms: int, seconds: int) -> tuple[Piece, ...]:
    """What a window that ends now consists of, oldest first. Only the last piece is not a whole step."""
    length_ms = seconds * 1_000
    first = next((step for step in _STEPS_MS if step * _PARTS <= length_ms), _STEPS_MS[-1])
    at_ms = (now_ms - length_ms) // first * first
    found = []
    while at_ms < now_ms:
        steps = (step for step in _STEPS_MS if at_ms % step == 0 and at_ms + step <= now_ms)
        until_ms = at_ms + next(steps, now_ms - at_ms)
        found.append(Piece(at_ms, until_ms))
        at_ms = until_ms
    return tuple(found)
