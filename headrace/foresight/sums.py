"""Past hourly loads of each datastream group, summed over its partitions.

Pinot computes the sums, so a query returns only one row per hour.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.foresight.history import DAY, HOUR_MS
from mirror.errors import HeadraceError
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import LoadSums, TaskCapacity

_FORGIVEN: Final = 3
"""Number of failures after which a computation does not query a cluster again."""
_FIELDS: Final = len(LoadSums._fields)


@dataclass(frozen=True)
class SumQuery:
    """Selection of the partitions whose loads are summed.

    `capacity`: capacity of a task. Partitions with a higher load are counted separately.
    """

    topics: frozenset[str]
    capacity: TaskCapacity


AskSums = Callable[[ClusterRef, SumQuery, int, int], Mapping[int, LoadSums]]
"""Callback that returns the sums of each known hour in a time range.

Start and end (exclusive) are epoch ms at whole hours.
"""


class HourlySums:
    """Load sums for each of several consecutive hours from `first_ms` on. Takes 48 bytes per hour."""

    def __init__(self, first_ms: int, hours: int) -> None:
        self._first_ms = first_ms
        self._hours = hours
        self._values = array("d", [float("nan")]) * (hours * _FIELDS)
        self._totals: dict[int, float] | None = None

    def put(self, hour_ms: int, sums: LoadSums) -> None:
        """Store the load sums of an hour. An hour outside of the range is ignored."""
        self._totals = None
        place = (hour_ms - self._first_ms) // HOUR_MS
        if 0 <= place < self._hours:
            self._values[place * _FIELDS : (place + 1) * _FIELDS] = array("d", sums)

    def put_all(self, others: HourlySums) -> None:
        """Copy the load sums of all hours from `others`, including unknown sums. Hours outside the range are
        ignored."""
        self._totals = None
        later = (others._first_ms - self._first_ms) // HOUR_MS
        first, end = max(later, 0), min(later + others._hours, self._hours)
        if first < end:
            same = others._values[(first - later) * _FIELDS : (end - later) * _FIELDS]
            self._values[first * _FIELDS : end * _FIELDS] = same

    def get(self, hour_ms: int) -> LoadSums | None:
        """Return the load sums of an hour; None if they are unknown."""
        place = (hour_ms - self._first_ms) // HOUR_MS
        if not 0 <= place < self._hours or math.isnan(self._values[place * _FIELDS]):
            return None
        partitions, total, alone, rest, messages, heavy = self._values[
            place * _FIELDS : (place + 1) * _FIELDS
        ]
        return LoadSums(int(partitions), total, int(alone), rest, messages, int(heavy))

    def totals(self) -> Mapping[int, float]:
        """Map each known hour (epoch ms), oldest first, to its bytes/s."""
        if self._totals is None:
            values = self._values[LoadSums._fields.index("bytes") :: _FIELDS]
            known = ((number, value) for number, value in enumerate(values) if not math.isnan(value))
            self._totals = {self._first_ms + number * HOUR_MS: value for number, value in known}
        return self._totals

    @property
    def newest_ms(self) -> int | None:
        """Start of the last hour with known load sums (epoch ms)."""
        return max(self.totals(), default=None)


@dataclass
class _Kept:
    cluster: ClusterRef
    query: SumQuery
    sums: HourlySums


class PastSums:
    """Cache of each datastream group's hourly load sums over the last `days` days. Not thread-safe."""

    def __init__(self, ask: AskSums, days: int) -> None:
        self._ask = ask
        self._days = days
        self._kept: dict[GroupName, _Kept] = {}
        self._failures: dict[ClusterRef, list[HeadraceError]] = {}

    def begin(self, groups: Collection[GroupName]) -> None:
        """Prepare the cache before the next computation of sizing advice.

        Drops groups that are not in `groups`. Clusters that failed in the last computation are queried again.
        """
        self._kept = {group: kept for group, kept in self._kept.items() if group in groups}
        self._failures = {}

    def of(self, group: GroupName, cluster: ClusterRef, query: SumQuery, now_ms: int) -> HourlySums:
        """Return the hourly load sums of a datastream group, up to the last complete hour.

        Hours of the last day are read again, because samples may be late. Older hours are read again only
        after a change of topics or capacity. If the query fails, the known hours are returned. Raises the
        error of `ask` if no hour is known.
        """
        end = now_ms // HOUR_MS * HOUR_MS
        first = end - self._days * DAY * HOUR_MS
        found = HourlySums(first, self._days * DAY)
        kept = self._kept.get(group)
        since = first
        if kept is not None and (kept.cluster, kept.query) == (cluster, query):
            newest = kept.sums.newest_ms
            found.put_all(kept.sums)
            since = first if newest is None else max(first, min(newest, end) - (DAY - 1) * HOUR_MS)
        try:
            requested = self._query(cluster, query, since, end)
        except HeadraceError:
            if not found.totals():
                raise
            requested = {}
        for hour, sums in requested.items():
            found.put(hour, sums)
        self._kept[group] = _Kept(cluster, query, found)
        return found

    def forget(self) -> None:
        """Drop the cached load sums after losing leadership."""
        self._kept, self._failures = {}, {}

    def _query(self, cluster: ClusterRef, query: SumQuery, since: int, end: int) -> Mapping[int, LoadSums]:
        failures = self._failures.setdefault(cluster, [])
        if len(failures) >= _FORGIVEN:
            raise failures[-1]
        try:
            return self._ask(cluster, query, since, end)
        except HeadraceError as error:
            failures.append(error)
            raise
