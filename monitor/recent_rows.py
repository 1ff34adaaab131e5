"""The rows of the metrics topic that lie in a window, added up as they come. Pure.

Histograms are kept by topic and second, lags by partition, so that memory follows topics times seconds of the
window, and partitions, and not the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mirror.model.metrics import add_counts
from mirror.model.rows import HISTOGRAM_COLUMNS, UNKNOWN
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, TopicLatency, observations

_SLOT_MS: Final = 1_000

_Topic = tuple[Source, str]
_Slots = dict[int, tuple[int, Sequence[int]]]
"""Records and histogram by the second in which they were measured."""


class RecentRows:
    """Rows as decoded from the topic (`mirror.model.rows`), until they are older than the window."""

    def __init__(self) -> None:
        self._slots: dict[_Topic, _Slots] = {}
        self._lags: dict[tuple[_Topic, int], PartitionLag] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row; of a partition's lag the newest counts, in whatever order rows come."""
        source = Source(row["datastream"], row["source_cluster"])
        topic, time_ms = row["topic"], row["time_ms"]
        counts = [row[column] for column in HISTOGRAM_COLUMNS]
        slots = self._slots.setdefault((source, topic), {})
        records, before = slots.get(time_ms // _SLOT_MS, (0, counts))
        together = counts if before is counts else add_counts((before, counts))
        slots[time_ms // _SLOT_MS] = records + row["records_copied"], together
        place = (source, topic), row["kafka_partition"]
        known = self._lags.get(place)
        if known is None or known.time_ms <= time_ms:
            age = None if row["lag_ms"] == UNKNOWN else row["lag_ms"]
            lag = PartitionLag(source, topic, row["lag_records"], age, time_ms, row["interval_ms"])
            self._lags[place] = lag

    def observe(self, now_ms: int, window_ms: int) -> Observations:
        """Of each topic with rows in the window up to now. What is older is forgotten, and what says that it
        was measured later than a window from now."""
        since, until = now_ms - window_ms, now_ms + window_ms
        for topic, slots in list(self._slots.items()):
            for second in [one for one in slots if not since < (one + 1) * _SLOT_MS <= until]:
                del slots[second]
            if not slots:
                del self._slots[topic]
        self._lags = {place: lag for place, lag in self._lags.items() if since <= lag.time_ms < until}
        return observations(self._latencies(), self._lags.values(), now_ms)

    def _latencies(self) -> Iterator[TopicLatency]:
        for (source, topic), slots in self._slots.items():
            records = sum(count for count, _ in slots.values())
            yield TopicLatency(source, topic, records, add_counts(counts for _, counts in slots.values()))
