"""How long a thread was ready to run and had no core, as the system counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_COUNTED: Final = Path("/proc/thread-self/schedstat")
_BILLION: Final = 1e9


def waited_seconds(counted: Path = _COUNTED) -> float | None:
    """Of the thread that asks, since it began. None where the system does not count it."""
    try:
        _, nanoseconds, *_ = counted.read_text(encoding="ascii").split()
        return int(nanoseconds) / _BILLION
    except (OSError, ValueError):
        return None
