"""Pace of an audit, which gives way to copying. Pure."""

from __future__ import annotations

from typing import Final

IDLE_PER_BUSY: Final = 3.0
"""Seconds without work for each second of processor time: an audit uses at most a quarter of a core."""


def rest_seconds(read_bytes: int, bytes_per_second: int, elapsed: float, busy: float) -> float:
    """Return the pause after a fetch. `elapsed`: seconds since the last pause, `busy`: processor time in
    them."""
    wanted = max(read_bytes / bytes_per_second, (1 + IDLE_PER_BUSY) * busy)
    return max(wanted - elapsed, 0.0)
