"""The hours that lie behind, by partition, as Pinot has rolled them up. An hour is asked for once."""

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
"""Partitions times hours that are held in memory, in 17 bytes each: about 100 MB."""
_FORGIVEN: Final = 3
"""Hours in a row that may be asked for in vain before a cluster's turn ends."""

Hours = Mapping[int, Mapping[TopicPartition, PartitionLoad]]
AskHour = Callable[[ClusterRef, int], Mapping[TopicPartition, PartitionLoad]]
"""Mean loads of the hour that begins at a moment (epoch ms); empty where nothing is known of it."""


class PastHours:
    """Of several clusters, the newest `days`. Used by one thread."""

    def __init__(self, ask: AskHour, days: int) -> None:
        self._ask = ask
        self._days = days
        self._known: dict[ClusterRef, dict[int, Snapshot]] = {}
        self._empty: dict[ClusterRef, set[int]] = {}

    def of(self, cluster: ClusterRef, now_ms: int) -> Hours:
        """The whole hours before now, without those of which nothing is known.

        The newest is asked for first, so that a Pinot that goes away leaves the nearest past; where
        partitions are many the past is shorter, down to two days. Raises what the question raises, where not
        one hour is known.
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
                empty.add(hour)  # what comes so late is not awaited
        self._known[cluster], self._empty[cluster] = known, empty
        return dict(sorted(known.items()))

    def forget(self) -> None:
        """Another instance leads: what is kept is of no use here."""
        self._known, self._empty = {}, {}

    @staticmethod
    def _is_enough(known: Mapping[int, Snapshot]) -> bool:
        held = sum(len(one) for one in known.values())
        return len(known) >= FEWEST_DAYS * DAY + 1 and held >= MOST_RATES
