"""Limits the processor time of audits, so that they do not slow down copying. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Final

from mirror.model.topics import TopicPartition

COPYING_SHARE: Final = 0.02
"""Maximum CPU time of count audits, as a share of the CPU time of copying."""
ALLOWANCE_SECONDS: Final = 1.0
"""Initial and maximum CPU budget of count audits, in seconds."""
IDLE_PER_BUSY: Final = 3.0
"""Idle seconds per second of CPU time, so that an audit uses at most a quarter of a core."""


def rest_seconds(read_bytes: int, bytes_per_second: int, elapsed: float, busy: float) -> float:
    """Return how long to pause after a fetch, in seconds.

    `elapsed`: seconds since the last pause. `busy`: CPU seconds used since the last pause.
    """
    wanted = max(read_bytes / bytes_per_second, (1 + IDLE_PER_BUSY) * busy)
    return max(wanted - elapsed, 0.0)


class AuditBudget:
    """CPU budget of count audits: a share of the CPU time of copying.

    Two kinds of datastreams are exempt: datastreams whose audit has been behind for `longest` seconds, and
    datastreams with a lane that this instance has never audited. The former owner of the lane may have been
    late as well.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._left = ALLOWANCE_SECONDS
        self._copying: dict[str, float] = {}
        self._audited: dict[str, tuple[float, frozenset[TopicPartition]]] = {}

    def earn(self, copying: Mapping[str, float]) -> None:
        """Increase the CPU budget of audits by a share of the CPU time of copying.

        `copying`: CPU seconds that each task has used since the instance started.
        """
        for task, seconds in copying.items():
            more = max(seconds - self._copying.get(task, 0.0), 0.0)
            self._left = min(self._left + COPYING_SHARE * more, ALLOWANCE_SECONDS)
            self._copying[task] = seconds

    def allows(self, name: str, places: Collection[TopicPartition], now: float) -> bool:
        """Return whether the budget permits an audit of the given lanes of a datastream now."""
        audited, known = self._audited.get(name, (-inf, frozenset()))
        return self._left > 0 or now >= audited + self._longest or not known.issuperset(places)

    def spend(
        self, name: str, places: Collection[TopicPartition], seconds: float, now: float, *, has_more: bool
    ) -> None:
        """Subtract the CPU time of an audit from the CPU budget.

        `has_more`: copied records remain to be audited.
        """
        self._left -= seconds
        if not has_more:
            self._audited[name] = now, frozenset(places)
