"""Latest known loads of each load source, used while the provider fails."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition
from mirror.wording import counted

DAY_MS: Final = 86_400_000
"""Maximum age of usable loads."""


@dataclass(frozen=True, slots=True)
class ClusterLoads:
    """Latest loads of a source's partitions.

    `provider`: provider of the last report, empty if there is none. `at_least`: partitions with a backlog,
    whose loads may be higher.
    """

    provider: str
    loads: Mapping[TopicPartition, PartitionLoad]
    at_least: frozenset[TopicPartition]

    def of(self, partition: TopicPartition, now_ms: int) -> PartitionLoad | None:
        """Return the load of a partition, or None if it was not measured within the last day."""
        load = self.loads.get(partition)
        return load if load is not None and _measured_ms(load) >= now_ms - DAY_MS else None


_NOTHING: Final = ClusterLoads("", {}, frozenset())


class NewestLoads:
    """Measured loads by load source and partition. Thread-safe.

    A report replaces the loads of its partitions. If the newer report contains only a default for a
    partition, the earlier load is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[LoadSource, ClusterLoads] = {}

    def note(self, source: LoadSource, report: LoadReport, now_ms: int) -> None:
        """Store the loads of a provider's report, without defaults.

        An estimate (topic mean or seasonal estimate) does not replace a measured load of the last day, which
        is then marked as `held`. Measurement times after `now_ms` count as `now_ms`.
        """
        at_ms = now_ms if report.measured_at_ms is None else min(report.measured_at_ms, now_ms)
        new = {
            key: replace(load, measured_at_ms=min(_or(load.measured_at_ms, at_ms), now_ms))
            for key, load in report.loads.items()
            if load.level is not LoadLevel.DEFAULT
        }
        with self._lock:
            before = self._known.get(source, _NOTHING)
            kept = {key: load for key, load in before.loads.items() if _measured_ms(load) >= now_ms - DAY_MS}
            for key in kept.keys() & new.keys():
                if _rank(new[key]) > _rank(kept[key]):
                    del new[key]
            for key in kept.keys() & (report.loads.keys() - new.keys()):
                kept[key] = _held(kept[key])
            at_least = (before.at_least & kept.keys() - new.keys()) | (report.at_least & new.keys())
            self._known[source] = ClusterLoads(report.provider, kept | new, at_least)

    def known(self, source: LoadSource) -> ClusterLoads:
        """Return an immutable snapshot of all known loads of a source."""
        with self._lock:
            return self._known.get(source, _NOTHING)

    def of(self, source: LoadSource, partition: TopicPartition) -> float | None:
        """Return the bytes per second of a partition; None if unknown."""
        load = self.known(source).loads.get(partition)
        return None if load is None else load.bytes_per_second

    def total(self, source: LoadSource, partitions: Iterable[TopicPartition]) -> float:
        """Return the known bytes per second of the partitions."""
        known = self.known(source).loads
        return sum(known[key].bytes_per_second for key in partitions if key in known)

    def is_known(self, source: LoadSource) -> bool:
        """Return whether any partition of the source has a known load."""
        return bool(self.known(source).loads)

    def measured_at_ms(self, source: LoadSource) -> int | None:
        """Return the time of the latest measurement of the source; None if there is none."""
        measured = (_measured_ms(load) for load in self.known(source).loads.values() if not load.is_estimate)
        return max(measured, default=None)

    def completed(self, source: LoadSource, report: LoadReport, now_ms: int) -> LoadReport:
        """Return the report, with estimates replaced by the last known loads.

        Order of preference: current measurement, last known load, seasonal estimate, topic mean, default.
        """
        known = self.known(source)
        last_known = {}
        for key, load in report.loads.items():
            if _rank(load) > 0 and (before := known.of(key, now_ms)) and _rank(before) < _rank(load):
                last_known[key] = _held(before)
        if not last_known:
            return report
        newest_ms = max(map(_measured_ms, last_known.values()))
        note = (
            f"last known loads, {age_text(now_ms - newest_ms)} old, of {len(last_known)} of "
            f"{counted(len(report.loads), 'partition')} without new measurements"
        )
        return replace(report, loads={**report.loads, **last_known}, notes=(*report.notes, note))

    def instead(
        self, source: LoadSource, partitions: Sequence[TopicPartition], reason: str, now_ms: int
    ) -> LoadReport | None:
        """Return the known loads as a replacement for a failed report, or None.

        `reason`: reason of the failure.
        """
        known = self.known(source)
        found = {key: known.of(key, now_ms) for key in partitions}
        held = {key: _held(load) for key, load in found.items() if load is not None}
        if not held:
            return None
        newest_ms = max(map(_measured_ms, held.values()))
        note = (
            f"planned by the last known loads, {age_text(now_ms - newest_ms)} old, "
            f"of {len(held)} of {counted(len(partitions), 'partition')}: {reason}"
        )
        return LoadReport(held, "last known", newest_ms, (note,))


def _rank(load: PartitionLoad) -> int:
    """Return the rank of a load, from 0 for a current measurement to 3 for a default."""
    if load.rate_source is RateSource.SEASONAL:
        return 1
    return {LoadLevel.PARTITION: 0, LoadLevel.TOPIC: 2, LoadLevel.DEFAULT: 3}[load.level]


def _held(load: PartitionLoad) -> PartitionLoad:
    return load if load.rate_source is RateSource.SEASONAL else replace(load, rate_source=RateSource.HELD)


def _or(own_ms: int | None, at_ms: int) -> int:
    return at_ms if own_ms is None else own_ms


def _measured_ms(load: PartitionLoad) -> int:
    assert load.measured_at_ms is not None  # set by `note`
    return load.measured_at_ms
