"""What a load provider of another package answers, looked at before anything is planned by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

HIGHEST_RATE: Final = 1e12
"""Bytes or messages per second of one partition; more is a mistake in the data."""
_MOST_NOTES: Final = 20
_LONGEST_NOTE: Final = 1_000


class CheckedLoads:
    """Satisfies `ports.LoadProvider`. An answer that cannot be is none: the last known loads count then."""

    def __init__(self, name: str, provider: LoadProvider) -> None:
        self._name = name
        self._provider = provider

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """The answer about the partitions that were asked for. Raises LoadUnavailable where it cannot be, and
        what the provider raises."""
        report: object = self._provider.loads(cluster, partitions)
        if not isinstance(report, LoadReport):
            raise self._wrong(f"answers with {type(report).__name__}, not LoadReport")
        asked = set(partitions)
        for partition, load in report.loads.items():
            if problem := _problem(load):
                raise self._wrong(f"says of {partition}: {problem}")
        return replace(
            report,
            loads={key: load for key, load in report.loads.items() if key in asked},
            provider=self._name,
            notes=tuple(str(one)[:_LONGEST_NOTE] for one in report.notes[:_MOST_NOTES]),
            at_least=frozenset(report.at_least) & asked,
        )

    def _wrong(self, what: str) -> LoadUnavailable:
        return LoadUnavailable(
            f"the load provider {self._name} {what}", advice="docs/plug-ins.md says what it may answer"
        )


def freshness_of(provider: LoadProvider) -> Callable[[ClusterRef], Freshness] | None:
    """How new its loads are, where it has a method that says so."""
    found = getattr(provider, "freshness", None)
    return found if callable(found) else None


def _problem(load: object) -> str:
    if not isinstance(load, PartitionLoad):
        return f"{type(load).__name__} is no PartitionLoad"
    for what, rate in (("bytes", load.bytes_per_second), ("messages", load.messages_per_second)):
        if rate is None and what == "messages":
            continue
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            return f"{what} per second are {type(rate).__name__}, not a number"
        if not math.isfinite(rate) or not 0 <= rate <= HIGHEST_RATE:
            return f"{rate} {what} per second; possible are 0 to {HIGHEST_RATE:.0e}"
    at_ms = load.measured_at_ms
    if at_ms is not None and (isinstance(at_ms, bool) or not isinstance(at_ms, int) or at_ms < 0):
        return f"it was measured at {at_ms!r}; epoch milliseconds are needed"
    return ""
