"""Computes from the topics how late records arrived. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Arrivals:
    """Arrivals of one partition at the destination, in epoch seconds.

    `late`: times at which a record was sent and arrived, of records that took longer than the objective."""

    newest: float = 0.0
    newest_age: float = 0.0
    late: list[tuple[float, float]] = field(default_factory=list)

    def note(self, sent: float, arrived: float, limit: float) -> None:
        """Record the arrival of a record. `limit`: objective in seconds."""
        self.newest, self.newest_age = arrived, arrived - sent
        if arrived - sent > limit:
            self.late.append((sent, arrived))


def late_intervals(
    late: Iterable[tuple[float, float]], limit: float, since: float, until: float
) -> list[tuple[float, float]]:
    """Return the disjoint intervals in which a record was later than `limit` and had not arrived yet."""
    found: list[tuple[float, float]] = []
    for first, last in sorted((max(sent + limit, since), min(arrived, until)) for sent, arrived in late):
        if last <= first:
            continue
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def seconds_of(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total length of intervals in seconds."""
    return sum(last - first for first, last in intervals)
