"""Converts past loads of a group's partitions from snapshots of a cluster to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress

import numpy as np

from assigner.forecast.outlook import PastRates, newest_of
from assigner.problem.loads import Rates
from mirror.instance.loads.observations import Snapshot
from mirror.model.topics import TopicPartition


def mean_rates(partitions: Iterable[TopicPartition], mean: Snapshot) -> PastRates:
    """Return past rates that contain only the mean load of each partition, and no hours.

    The newest load of each partition is its mean load. Partitions without a mean are omitted.
    """
    reader = _Reader(partitions)
    return reader.known({}, reader.rates(mean))


def past_rates(
    partitions: Iterable[TopicPartition], hours: Mapping[int, Snapshot], since_ms: int
) -> PastRates:
    """Return past rates with the loads of each hour. Partitions without a load after `since_ms` are
    omitted."""
    reader = _Reader(partitions)
    found = {hour: reader.rates(hours[hour]) for hour in sorted(hours, reverse=True)}
    return reader.known(found, newest_of([rates for hour, rates in found.items() if hour > since_ms]))


class _Reader:
    """Reads the loads of selected partitions from snapshots of a cluster."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self._partitions = tuple(partitions)
        self._numbers: Mapping[TopicPartition, int] | None = None
        self._rows = np.empty(0, np.int64)

    def rates(self, loads: Snapshot) -> Rates:
        """Return bytes and messages per second as float64[n, 2], NaN if unknown."""
        if self._numbers is not loads.numbers:  # mostly shared by the snapshots of a cluster
            self._numbers = loads.numbers
            self._rows = np.array(
                [loads.numbers.get(partition, -1) for partition in self._partitions], np.int64
            )
        if not loads:
            return np.full((len(self._partitions), 2), np.nan)
        found = np.stack([np.frombuffer(values)[self._rows] for values in loads.rates], axis=1)
        found[self._rows < 0] = np.nan
        found[found < 0] = np.nan
        return found

    def known(self, hours: Mapping[int, Rates], newest: Rates) -> PastRates:
        """Return past rates without the partitions whose newest load is unknown."""
        is_known = ~np.isnan(newest[:, 0])
        places = {partition: place for place, partition in enumerate(compress(self._partitions, is_known))}
        return PastRates(places, {hour: rates[is_known] for hour, rates in hours.items()}, newest[is_known])
