"""Past loads of partitions, from which the share of each partition in a forecast is derived.

Each hour is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirror.errors import HeadraceError
from mirror.instance.loads.observations import Snapshot
from mirror.model.identifiers import ClusterRef
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.forecast.outlook import PastRates

HOUR_MS: Final = 3_600_000
DAY: Final = 24
MOST_RATES: Final = 1_000_000
"""Maximum number of loads (partitions times hours) per cluster in memory, 17 bytes each.

Above it, only the mean of the last day is read, which is one load per partition.
"""
_FORGIVEN: Final = 3
"""Number of consecutive failures after which a computation reads no more loads of a cluster."""

Loads = Mapping[TopicPartition, PartitionLoad]
Hours = Mapping[int, Snapshot]
AskLoads = Callable[[ClusterRef, int, int], Loads]
"""Callback that returns the mean loads of a time range, empty if there are none.

Start and end are epoch ms at whole hours.
"""


class PastHours:
    """Cache of past hourly loads for several clusters. Not thread-safe."""

    def __init__(self, ask: AskLoads, most_rates: int = MOST_RATES) -> None:
        self._ask = ask
        self._most_rates = most_rates
        self._known: dict[ClusterRef, dict[int, Snapshot]] = {}
        self._empty: dict[ClusterRef, set[int]] = {}
        self._means: dict[ClusterRef, tuple[int, Snapshot]] = {}

    def has_room(self, partitions: int, hours: int) -> bool:
        """Return whether hourly loads of `partitions` partitions fit into memory."""
        return partitions * hours <= self._most_rates

    def of(self, cluster: ClusterRef, wanted: Sequence[int], now_ms: int) -> Hours:
        """Return the loads of the `wanted` hours in the same order, and drop all other hours from the cache.

        `wanted`: starts of the hours (epoch ms). Reading stops after several consecutive failures. Raises the
        error of `ask` if no hour is known.
        """
        known = self._known.get(cluster, {})
        empty = self._empty.get(cluster, set())
        found: dict[int, Snapshot] = {}
        silent: set[int] = set()
        failures: list[HeadraceError] = []
        for hour in wanted:
            if hour in known:
                found[hour] = known[hour]
            elif hour in empty:
                silent.add(hour)
            elif len(failures) < _FORGIVEN:
                try:
                    loads = self._ask(cluster, hour, hour + HOUR_MS)
                except HeadraceError as error:
                    failures.append(error)
                    continue
                failures.clear()
                if loads:
                    found[hour] = Snapshot(loads, next(iter(found.values()), None))
                elif hour < now_ms - DAY * HOUR_MS:
                    silent.add(hour)  # data is not expected to arrive this late
        self._known[cluster], self._empty[cluster] = found, silent
        if failures and not found:
            raise failures[-1]
        return found

    def mean_of(self, cluster: ClusterRef, end_ms: int) -> Snapshot:
        """Return the mean load of each partition over the 24 hours before `end_ms`. Raises the error of
        `ask`."""
        at, mean = self._means.get(cluster, (0, None))
        if mean is None or at != end_ms:
            mean = Snapshot(self._ask(cluster, end_ms - DAY * HOUR_MS, end_ms), mean)
            self._means[cluster] = end_ms, mean
        return mean

    def forget(self) -> None:
        """Drop the cached loads after losing leadership."""
        self._known, self._empty, self._means = {}, {}, {}


@dataclass(frozen=True)
class PartitionDetails:
    """Past loads of a cluster's partitions, as read for one computation.

    Contains either `hours` (loads by hour) or `mean` (mean of the last day). `known`: hours in which any
    group has a known load. `why`: reason why the loads cannot be read, or an empty string.
    """

    known: Collection[int] = ()
    hours: Hours = field(default_factory=dict)
    mean: Snapshot | None = None
    why: str = ""

    def of(self, planned: frozenset[TopicPartition]) -> PastRates:
        """Return the past loads of these partitions. Partitions without a load in the last day are
        omitted."""
        from headrace.foresight.rates import mean_rates, past_rates

        if not self.hours:
            return mean_rates(planned, self.mean or Snapshot({}, None))
        return past_rates(planned, self.hours, max(self.known) - DAY * HOUR_MS)
