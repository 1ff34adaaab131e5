"""Adds backlogs to loads, because late records must be copied in addition to new records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mirror.coordination.stores.measured_load import LateRecords
from mirror.model.identifiers import ClusterRef
from mirror.model.load import HIGHEST_RATE, LoadLevel, LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider
from mirror.wording import counted, rate_text

AskWaiting = Callable[[ClusterRef], Mapping[TopicPartition, LateRecords]]
"""Callback that returns the late records of a source cluster. Raises Unreachable."""


class LoadsWithBacklog:
    """Load provider that adds backlogs to the loads of another provider. Implements `ports.LoadProvider`.
    `catch_up_seconds`: default time in which a backlog should be copied."""

    def __init__(self, provider: LoadProvider, waiting: AskWaiting, catch_up_seconds: float) -> None:
        self._provider = provider
        self._waiting = waiting
        self._catch_up_seconds = catch_up_seconds

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the provider's loads with the backlog added. Raises Unreachable, and its errors."""
        report = self._provider.loads(cluster, partitions)
        return with_backlog(report, self._waiting(cluster), self._catch_up_seconds)


def with_backlog(
    report: LoadReport, waiting: Mapping[TopicPartition, LateRecords], catch_up_seconds: float
) -> LoadReport:
    """Raise each load by the rate at which its backlog must be copied. Pure. Unknown loads remain unknown,
    because an estimate must not become a measurement."""
    loads, added = dict(report.loads), 0.0
    late = 0
    for partition, backlog in waiting.items():
        load = loads.get(partition)
        if load is not None and load.level is not LoadLevel.DEFAULT:
            loads[partition] = _raised(load, backlog, backlog.catch_up_seconds or catch_up_seconds)
            added += loads[partition].bytes_per_second - load.bytes_per_second
            late += 1
    if not late:
        return report
    note = f"{counted(late, 'partition is', 'partitions are')} late: {rate_text(added)} added to catch up"
    return replace(report, loads=loads, notes=(*report.notes, note))


def _raised(load: PartitionLoad, waiting: LateRecords, seconds: float) -> PartitionLoad:
    """Return the load plus the catch-up rate, limited to the planner's maximum."""
    messages = load.messages_per_second
    if messages is not None:
        messages = min(messages + waiting.messages / seconds, HIGHEST_RATE)
    rate = min(load.bytes_per_second + waiting.bytes / seconds, HIGHEST_RATE)
    return replace(load, bytes_per_second=rate, messages_per_second=messages)
