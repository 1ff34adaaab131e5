"""The rows of the metrics topic, added up as they come, for windows up to now. Pure.

Histograms are kept by topic and second for two minutes, by topic and minute for longer windows, and lags by
partition: memory follows topics and partitions, and not the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import add, itemgetter
from typing import Any, Final

from mirror.model.rows import HISTOGRAM_COLUMNS, UNKNOWN
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, observations

_FINE_MS: Final = 1_000
_COARSE_MS: Final = 60_000
_LONGEST_FINE_MS: Final = 120_000
"""Longer windows are sums of minutes: they begin up to a minute early."""

_WHERE: Final = itemgetter("datastream", "source_cluster", "topic", "time_ms")
_NUMBERS: Final = itemgetter("records_copied", *HISTOGRAM_COLUMNS)

_Topic = tuple[Source, str]


class _Slots:
    """Records and histogram of each topic, in one list, by the slot of `length_ms` in which they were
    measured."""

    def __init__(self, length_ms: int) -> None:
        self._length = length_ms
        self._by_topic: dict[_Topic, dict[int, Sequence[int]]] = {}

    def add(self, topic: _Topic, time_ms: int, numbers: Sequence[int]) -> None:
        slots = self._by_topic.setdefault(topic, {})
        slot = time_ms // self._length
        before = slots.get(slot)
        slots[slot] = numbers if before is None else list(map(add, before, numbers))

    def forget(self, before_ms: int, after_ms: int) -> None:
        for topic, slots in list(self._by_topic.items()):
            for number in [one for one in slots if not self._is_between(one, before_ms, after_ms)]:
                del slots[number]
            if not slots:
                del self._by_topic[topic]

    def since(self, moment_ms: int) -> Iterator[Sequence[Any]]:
        for (source, topic), slots in self._by_topic.items():
            within = [slot for number, slot in slots.items() if (number + 1) * self._length > moment_ms]
            if within:
                yield *source, topic, *map(sum, zip(*within, strict=True))

    def _is_between(self, number: int, before_ms: int, after_ms: int) -> bool:
        return (number + 1) * self._length > before_ms and number * self._length <= after_ms


class RecentRows:
    """Rows as decoded from the topic (`mirror.model.rows`)."""

    def __init__(self) -> None:
        self._fine = _Slots(_FINE_MS)
        self._coarse = _Slots(_COARSE_MS)
        self._lags: dict[tuple[_Topic, int], PartitionLag] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row; of a partition's lag the newest counts, in whatever order rows come."""
        group, cluster, name, time_ms = _WHERE(row)
        topic = Source(group, cluster), name
        numbers = _NUMBERS(row)
        self._fine.add(topic, time_ms, numbers)
        self._coarse.add(topic, time_ms, numbers)
        place = topic, row["kafka_partition"]
        known = self._lags.get(place)
        if known is None or known.time_ms <= time_ms:
            age = None if row["lag_ms"] == UNKNOWN else row["lag_ms"]
            lag = PartitionLag(*topic, row["lag_records"], age, time_ms, row["interval_ms"])
            self._lags[place] = lag

    def forget(self, now_ms: int, longest_ms: int) -> None:
        """Let go of what is older than the longest window, and of what says that it was measured later than
        that from now."""
        since, until = now_ms - longest_ms, now_ms + longest_ms
        self._fine.forget(now_ms - min(longest_ms, _LONGEST_FINE_MS), until)
        self._coarse.forget(since, until)
        self._lags = {place: lag for place, lag in self._lags.items() if since <= lag.time_ms <= until}

    def observe(self, now_ms: int, window_ms: int) -> Observations:
        """Of each topic with rows in the window up to now."""
        since = now_ms - window_ms
        slots = self._fine if window_ms <= _LONGEST_FINE_MS else self._coarse
        lags = [lag for lag in self._lags.values() if lag.time_ms >= since]
        return observations(slots.since(since), lags, now_ms)
