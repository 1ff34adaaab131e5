"""Pace of an audit, which gives way to copying. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

COPYING_SHARE: Final = 0.02
"""Processor time of audits of counts as a share of that of copying."""
ALLOWANCE_SECONDS: Final = 1.0
"""Processor time that an audit may use before copying has used any; also the most that it saves."""
IDLE_PER_BUSY: Final = 3.0
"""Seconds without work for each second of processor time: an audit uses at most a quarter of a core."""


def rest_seconds(read_bytes: int, bytes_per_second: int, elapsed: float, busy: float) -> float:
    """Return the pause after a fetch. `elapsed`: seconds since the last pause, `busy`: processor time in
    them."""
    wanted = max(read_bytes / bytes_per_second, (1 + IDLE_PER_BUSY) * busy)
    return max(wanted - elapsed, 0.0)


class AuditBudget:
    """Limits audits of counts to a share of the processor time of copying. A datastream that was not audited
    to its end for `longest` seconds is audited in any case."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._left = ALLOWANCE_SECONDS
        self._copying: dict[str, float] = {}
        self._audited: dict[str, float] = {}

    def earn(self, copying: Mapping[str, float]) -> None:
        """Note the processor time of copying in seconds, by task, each since the instance started."""
        for task, seconds in copying.items():
            more = max(seconds - self._copying.get(task, 0.0), 0.0)
            self._left = min(self._left + COPYING_SHARE * more, ALLOWANCE_SECONDS)
            self._copying[task] = seconds

    def allows(self, name: str, now: float) -> bool:
        """Return whether a datastream may be audited now."""
        return self._left > 0 or now >= self._audited.get(name, -inf) + self._longest

    def spend(self, name: str, seconds: float, now: float, *, has_more: bool) -> None:
        """Note the processor time of an audit. `has_more`: it has not reached the end."""
        self._left -= seconds
        if not has_more:
            self._audited[name] = now
