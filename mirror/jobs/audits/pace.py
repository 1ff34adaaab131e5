"""Limits the processor time of audits, so that they do not slow down copying. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Final

from mirror.model.topics import TopicPartition

COPYING_SHARE: Final = 0.02
"""Processor time of count audits, as a share of the processor time of copying."""
ALLOWANCE_SECONDS: Final = 1.0
"""Initial budget of processor time in seconds, and maximum of the accumulated budget."""
IDLE_PER_BUSY: Final = 3.0
"""Idle seconds for each second of processor time, so that an audit uses at most a quarter of a core."""


def rest_seconds(read_bytes: int, bytes_per_second: int, elapsed: float, busy: float) -> float:
    """Return the pause after a fetch, in seconds. `elapsed`: seconds since the last pause. `busy`: processor
    time used since the last pause."""
    wanted = max(read_bytes / bytes_per_second, (1 + IDLE_PER_BUSY) * busy)
    return max(wanted - elapsed, 0.0)


class AuditBudget:
    """Limits count audits to a share of the processor time of copying. The limit does not apply to a
    datastream whose audit has not reached the end of its copies for `longest` seconds. It does not apply to a
    datastream with lanes that this instance has not audited either, because the former owner of these lanes
    may have waited just as long."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._left = ALLOWANCE_SECONDS
        self._copying: dict[str, float] = {}
        self._audited: dict[str, tuple[float, frozenset[TopicPartition]]] = {}

    def earn(self, copying: Mapping[str, float]) -> None:
        """Add budget. `copying`: seconds of processor time that each task has used since the instance
        started."""
        for task, seconds in copying.items():
            more = max(seconds - self._copying.get(task, 0.0), 0.0)
            self._left = min(self._left + COPYING_SHARE * more, ALLOWANCE_SECONDS)
            self._copying[task] = seconds

    def allows(self, name: str, places: Collection[TopicPartition], now: float) -> bool:
        """Return whether lanes of a datastream may be audited now."""
        audited, known = self._audited.get(name, (-inf, frozenset()))
        return self._left > 0 or now >= audited + self._longest or not known.issuperset(places)

    def spend(
        self, name: str, places: Collection[TopicPartition], seconds: float, now: float, *, has_more: bool
    ) -> None:
        """Subtract the processor time of an audit. `has_more`: copied records remain to be audited."""
        self._left -= seconds
        if not has_more:
            self._audited[name] = now, frozenset(places)
