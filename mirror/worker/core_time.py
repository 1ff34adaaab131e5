"""Reads from the kernel how long a runnable thread has waited for a CPU core."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_COUNTED: Final = Path("/proc/thread-self/schedstat")
_BILLION: Final = 1e9


def waited_seconds(counted: Path = _COUNTED) -> float | None:
    """Return the seconds that the calling thread has waited for a core since its start.

    Returns None if the system does not report this time.
    """
    try:
        _, nanoseconds, *_ = counted.read_text(encoding="ascii").split()
        return int(nanoseconds) / _BILLION
    except (OSError, ValueError):
        return None
