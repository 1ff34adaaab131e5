"""Latest known loads and earlier observations of each load source, kept in memory by the leader for planning.

The latest observations of each load source are kept to distinguish a spike from a lasting load. The heaviest
observation of each quarter of the last day (or of the configured period) is also kept, so that the loads of
the day still count at night. The heaviest observation is determined per group, so that the peak of a small
group at another hour is not lost.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror.instance.loads.expectation import ExpectedLoads
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition
from mirror.wording import counted

DAY_MS: Final = 86_400_000
"""Maximum age of usable loads in ms."""


@dataclass(frozen=True, slots=True)
class ClusterLoads:
    """Latest loads of the partitions of one source. `provider`: provider of the last report, empty without
    one. `at_least`: partitions with a backlog, whose loads may be higher."""

    provider: str
    loads: Mapping[TopicPartition, PartitionLoad]
    at_least: frozenset[TopicPartition]

    def of(self, partition: TopicPartition, now_ms: int) -> PartitionLoad | None:
        """Return the load of a partition, or None if it was not measured within the last day."""
        load = self.loads.get(partition)
        return load if load is not None and _measured_ms(load) >= now_ms - DAY_MS else None


_NOTHING: Final = ClusterLoads("", {}, frozenset())


class NewestLoads:
    """Latest measured load of each partition, separately for each load source. Thread-safe. A report replaces
    the loads of its partitions, unless the new load is only a default."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[LoadSource, ClusterLoads] = {}

    def note(self, source: LoadSource, report: LoadReport, now_ms: int) -> None:
        """Store the loads of a report, without defaults.

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
        """Return an immutable snapshot of all known loads of one source."""
        with self._lock:
            return self._known.get(source, _NOTHING)

    def of(self, source: LoadSource, partition: TopicPartition) -> float | None:
        """Return the known bytes per second of a partition of the source; None if unknown."""
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
        """Return the time of the source's latest measurement, or None."""
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
        """Return the last known loads in place of a failed report, or None. `reason`: reason of the
        failure."""
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
    """Return how reliable a load is, from 0 for a current measurement to 3 for a default."""
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


NEWEST: Final = 3
"""Number of latest observations that are always kept, including the current one."""

DAY_SECONDS: Final = 86_400.0
_QUARTERS: Final = 4


class Snapshot(Mapping[TopicPartition, PartitionLoad]):
    """Observed loads in a compact form of 17 bytes per partition. Estimates are omitted. Snapshots of the
    same partitions share an index."""

    def __init__(self, loads: Mapping[TopicPartition, PartitionLoad], before: Snapshot | None) -> None:
        observed = {key: load for key, load in loads.items() if not load.is_estimate}
        self.numbers: Mapping[TopicPartition, int] = before.numbers if before is not None else {}
        if self.numbers.keys() != observed.keys():
            self.numbers = {key: number for number, key in enumerate(observed)}
        self._bytes = array("d", bytes(8 * len(observed)))
        self._messages = array("d", bytes(8 * len(observed)))
        self._is_of_topic = bytearray(len(observed))
        for key, load in observed.items():
            number, messages = self.numbers[key], load.messages_per_second
            self._bytes[number] = load.bytes_per_second
            self._messages[number] = -1.0 if messages is None else messages
            self._is_of_topic[number] = load.level is LoadLevel.TOPIC
        self.total = sum(self._bytes)

    def __getitem__(self, partition: TopicPartition) -> PartitionLoad:
        number = self.numbers[partition]
        messages = self._messages[number]
        level = LoadLevel.TOPIC if self._is_of_topic[number] else LoadLevel.PARTITION
        return PartitionLoad(self._bytes[number], None if messages < 0 else messages, level)

    def __contains__(self, partition: object) -> bool:
        return partition in self.numbers

    @property
    def rates(self) -> tuple[array[float], array[float]]:
        """Bytes and messages per second of each partition; -1 if unknown.

        `numbers` contains the index of each partition.
        """
        return self._bytes, self._messages

    def carried(self, partitions: Iterable[TopicPartition]) -> float:
        """Return the sum of the observed bytes per second of the given partitions."""
        numbers, found = self.numbers, self._bytes
        return sum([found[numbers[partition]] for partition in partitions if partition in numbers])

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Observation:
    """Loads of a load source at one time. `at_seconds`: time of the observation (monotonic seconds)."""

    at_seconds: float
    measured_at_ms: int | None
    loads: Snapshot


class LoadMemory:
    """Observations of each load source. Written by one thread; all times are from the same monotonic clock.

    `newest`: latest loads from any report. `expected`: expected loads of the coming hours. `sources`: load
    source of each group in the leader's last tick; replaced atomically. `remembered_seconds`: time for which
    an observation counts, at most a day.
    """

    def __init__(self, remembered_seconds: float = DAY_SECONDS) -> None:
        self.remembered_seconds = remembered_seconds
        self.newest = NewestLoads()
        self.expected = ExpectedLoads()
        self._kept: dict[LoadSource, tuple[Observation, ...]] = {}
        self.sources: Mapping[GroupName, LoadSource] = {}

    def all_of(self, source: LoadSource) -> tuple[Observation, ...]:
        """Return all kept observations of a source, oldest first."""
        return self._kept.get(source, ())

    def restore(self, source: LoadSource, observations: Iterable[Observation]) -> None:
        """Replace the observations in memory by observations that another leader has stored."""
        self._kept[source] = tuple(sorted(observations, key=lambda observation: observation.at_seconds))

    def note(
        self,
        source: LoadSource,
        report: LoadReport,
        now_seconds: float,
        groups: Sequence[Collection[TopicPartition]] = (),
    ) -> bool:
        """Store a load report as an observation. Return False if the report is empty or equals the previous
        one. `groups`: partitions of each group that is planned with this source."""
        kept = self._kept.get(source, ())
        measured = report.measured_at_ms
        if kept and measured is not None and kept[-1].measured_at_ms == measured:
            return False
        loads = Snapshot(report.loads, kept[-1].loads if kept else None)
        if not loads:
            return False
        kept = tuple(
            observation
            for observation in kept
            if observation.at_seconds >= now_seconds - self.remembered_seconds
        )
        every = (*kept, Observation(now_seconds, measured, loads))
        heaviest: dict[int, Observation] = {}
        for name in every[:-NEWEST]:
            quarter = int(name.at_seconds * _QUARTERS // self.remembered_seconds)
            before = heaviest.get(quarter)
            heaviest[quarter] = name if before is None else _heavier(before, name, groups)
        self._kept[source] = (*heaviest.values(), *every[-NEWEST:])
        return True

    def before(self, source: LoadSource, now_seconds: float) -> tuple[Snapshot, ...]:
        """Return the observations before `now_seconds` that are recent enough to count, oldest first."""
        return tuple(
            observation.loads
            for observation in self._kept.get(source, ())
            if now_seconds - self.remembered_seconds <= observation.at_seconds < now_seconds
        )


def _heavier(
    first: Observation, second: Observation, groups: Sequence[Collection[TopicPartition]]
) -> Observation:
    """Merge two observations: each group keeps its heavier loads. Loads of partitions without a group are
    from the observation with the higher total."""
    whole = first if first.loads.total >= second.loads.total else second
    lighter = (second if whole is first else first).loads
    others = [held for held in groups if lighter.carried(held) > whole.loads.carried(held)]
    if not others:
        return whole
    theirs = frozenset[TopicPartition]().union(*others)
    loads = {partition: load for partition, load in whole.loads.items() if partition not in theirs}
    loads |= {their: lighter[their] for their in theirs if their in lighter}
    newer = max(first, second, key=lambda each: each.at_seconds)
    return replace(newer, loads=Snapshot(loads, newer.loads))
