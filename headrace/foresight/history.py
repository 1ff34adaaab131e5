"""Past hourly loads of partitions from Pinot's rollups. Each hour is read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mirror.errors import HeadraceError
from mirror.instance.loads.observations import Snapshot
from mirror.model.identifiers import ClusterRef
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition

HOUR_MS: Final = 3_600_000
DAY: Final = 24
FEWEST_DAYS: Final = 2
MOST_RATES: Final = 6_000_000
"""Maximum of partitions times hours in memory, at 17 bytes each: about 100 MB."""
_FORGIVEN: Final = 3
"""Number of consecutive failures after which reading of a cluster stops."""

Hours = Mapping[int, Mapping[TopicPartition, PartitionLoad]]
AskHour = Callable[[ClusterRef, int], Mapping[TopicPartition, PartitionLoad]]
"""Returns the mean loads of the hour starting at a time (epoch ms), empty if there are none."""


class PastHours:
    """Cache of the last `days` of several clusters. Not thread-safe."""

    def __init__(self, ask: AskHour, days: int) -> None:
        self._ask = ask
        self._days = days
        self._known: dict[ClusterRef, dict[int, Snapshot]] = {}
        self._empty: dict[ClusterRef, set[int]] = {}

    def of(self, cluster: ClusterRef, now_ms: int) -> Hours:
        """Return the loads of the complete hours before now; unknown hours are omitted.

        Recent hours are read first, so that they are available after an outage of Pinot. With many
        partitions the history is shorter, down to two days. Raises the error of `ask` if no hour is known.
        """
        end = now_ms // HOUR_MS * HOUR_MS
        first = end - self._days * DAY * HOUR_MS
        known = {at: one for at, one in self._known.get(cluster, {}).items() if first <= at < end}
        empty = {at for at in self._empty.get(cluster, ()) if first <= at < end}
        failures = 0
        for hour in range(end - HOUR_MS, first - 1, -HOUR_MS):
            if hour in known or hour in empty:
                continue
            if self._is_enough(known):
                break
            try:
                loads = self._ask(cluster, hour)
            except HeadraceError:
                failures += 1
                if failures >= _FORGIVEN:
                    if not known:
                        raise
                    break
                continue
            failures = 0
            if loads:
                known[hour] = Snapshot(loads, known.get(hour + HOUR_MS))
            elif hour < end - DAY * HOUR_MS:
                empty.add(hour)  # data is not expected to arrive this late
        self._known[cluster], self._empty[cluster] = known, empty
        return dict(sorted(known.items()))

    def forget(self) -> None:
        """Drop the cache after losing leadership."""
        self._known, self._empty = {}, {}

    @staticmethod
    def _is_enough(known: Mapping[int, Snapshot]) -> bool:
        held = sum(len(one) for one in known.values())
        return len(known) >= FEWEST_DAYS * DAY + 1 and held >= MOST_RATES
