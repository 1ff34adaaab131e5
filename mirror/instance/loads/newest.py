"""The newest loads that are known of each source cluster, for while the load provider does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition

DAY_MS: Final = 86_400_000
"""Loads that were measured earlier are not used any more."""


class NewestLoads:
    """Loads that somebody measured, by source cluster and partition. For any thread.

    An answer about a part of the partitions replaces what is known of those.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[ClusterRef, Mapping[TopicPartition, PartitionLoad]] = {}

    def note(self, cluster: ClusterRef, report: LoadReport, now_ms: int) -> None:
        """Remember an answer of the load provider; loads that are only the default are left out."""
        at_ms = now_ms if report.measured_at_ms is None else report.measured_at_ms
        new = {
            key: load if load.measured_at_ms is not None else replace(load, measured_at_ms=at_ms)
            for key, load in report.loads.items()
            if load.level is not LoadLevel.DEFAULT
        }
        with self._lock:
            before = self._known.get(cluster, {})
            kept = {key: one for key, one in before.items() if _measured_ms(one) >= now_ms - DAY_MS}
            self._known[cluster] = kept | new

    def of(self, cluster: ClusterRef, partition: TopicPartition) -> float | None:
        """Bytes per second of a partition; None where that is not known."""
        with self._lock:
            load = self._known.get(cluster, {}).get(partition)
        return None if load is None else load.bytes_per_second

    def total(self, cluster: ClusterRef, partitions: Iterable[TopicPartition]) -> float:
        """Bytes per second of the partitions, as far as they are known."""
        with self._lock:
            known = self._known.get(cluster, {})
        return sum(known[key].bytes_per_second for key in partitions if key in known)

    def is_known(self, cluster: ClusterRef) -> bool:
        """Whether the load of any of its partitions is known."""
        with self._lock:
            return bool(self._known.get(cluster))

    def measured_at_ms(self, cluster: ClusterRef) -> int | None:
        """When anything of the cluster was measured last; None where nothing is known of it."""
        with self._lock:
            known = self._known.get(cluster, {})
        return max(map(_measured_ms, known.values()), default=None)

    def instead(
        self, cluster: ClusterRef, partitions: Sequence[TopicPartition], reason: str, now_ms: int
    ) -> LoadReport | None:
        """What is known, in place of an answer that cannot be had for the reason; None when nothing is."""
        with self._lock:
            known = self._known.get(cluster, {})
        held = {
            key: replace(known[key], rate_source=RateSource.HELD)
            for key in partitions
            if key in known and _measured_ms(known[key]) >= now_ms - DAY_MS
        }
        if not held:
            return None
        newest_ms = max(map(_measured_ms, held.values()))
        note = (
            f"planned by the last known loads, {age_text(now_ms - newest_ms)} old, "
            f"of {len(held)} of {len(partitions)} partitions: {reason}"
        )
        return LoadReport(held, "last known", newest_ms, (note,))


def _measured_ms(load: PartitionLoad) -> int:
    assert load.measured_at_ms is not None  # `note` sees to it
    return load.measured_at_ms
