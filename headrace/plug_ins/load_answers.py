"""Validates the results of load providers before Headrace uses or shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.plug_ins.entry_points import WHAT_IT_MAY_ANSWER
from headrace.plug_ins.guard import called
from mirror.errors import CorruptData, LoadUnavailable
from mirror.model.bounds import LARGEST_MS, shown
from mirror.model.identifiers import ClusterRef
from mirror.model.load import HIGHEST_RATE, Freshness, LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.reasons import legible
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

_MOST_NOTES: Final = 20
_LONGEST_NOTE: Final = 1_000


class CheckedLoads:
    """Load provider that validates the reports of another provider. Implements `ports.LoadProvider`.

    If a report is invalid, the last known loads remain in use.
    """

    def __init__(self, name: str, provider: LoadProvider) -> None:
        self._name = name
        self._provider = provider

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the validated loads of the requested partitions.

        Raises LoadUnavailable if the report is invalid, and the errors of the provider.
        """
        report: object = called(
            f"load provider {self._name}", lambda: self._provider.loads(cluster, partitions), LoadUnavailable
        )
        if problem := _problem_of_report(report):
            raise LoadUnavailable(f"load provider {self._name} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(report, LoadReport)
        requested = set(partitions)
        return replace(
            report,
            loads={key: load for key, load in report.loads.items() if key in requested},
            provider=self._name,
            notes=tuple(legible(str(note), _LONGEST_NOTE) for note in report.notes[:_MOST_NOTES]),
            at_least=frozenset(requested.intersection(report.at_least)),
        )


def freshness_of(name: str, provider: LoadProvider) -> Callable[[ClusterRef], Freshness] | None:
    """Return a function that reads from a load provider how old a cluster's loads are.

    Returns None if the provider has no method `freshness`. The function raises CorruptData for an invalid
    result, and the errors of the provider.
    """
    ask = getattr(provider, "freshness", None)
    if not callable(ask):
        return None

    def checked(cluster: ClusterRef) -> Freshness:
        answer: object = called(f"load provider {name}", lambda: ask(cluster), CorruptData)
        if problem := _problem_of_freshness(answer):
            raise CorruptData(f"load provider {name} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(answer, Freshness)
        return answer

    return checked


def _problem_of_report(report: object) -> str:
    if not isinstance(report, LoadReport):
        return f"returned {type(report).__name__}, expected LoadReport"
    if not isinstance(report.loads, Mapping):
        return f"returned loads of type {type(report.loads).__name__}, expected a mapping by partition"
    if isinstance(report.notes, str) or not isinstance(report.notes, Sequence):
        return f"returned notes of type {type(report.notes).__name__}, expected a sequence"
    if not isinstance(report.at_least, Collection) or not all(
        isinstance(partition, TopicPartition) for partition in report.at_least
    ):
        return "returned at_least that is not a collection of partitions"
    if problem := _problem_of_time(report.measured_at_ms):
        return f"returned an invalid report: {problem}"
    for partition, load in report.loads.items():
        if problem := _problem_of_load(load):
            return f"returned an invalid load of {partition}: {problem}"
    return ""


def _problem_of_load(load: object) -> str:
    if not isinstance(load, PartitionLoad):
        return f"{type(load).__name__}, expected PartitionLoad"
    for unit, rate in (("bytes", load.bytes_per_second), ("messages", load.messages_per_second)):
        if rate is None and unit == "messages":
            continue
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            return f"{unit} per second of type {type(rate).__name__}, expected a number"
        if not 0 <= rate <= HIGHEST_RATE:  # also false for NaN
            return f"{shown(rate)} {unit} per second, expected 0 to {HIGHEST_RATE:.0e}"
    if not isinstance(load.level, LoadLevel) or not isinstance(load.rate_source, RateSource):
        return f"unknown level {shown(load.level)} or rate source {shown(load.rate_source)}"
    return _problem_of_time(load.measured_at_ms)


def _problem_of_freshness(answer: object) -> str:
    if not isinstance(answer, Freshness):
        return f"returned {type(answer).__name__}, expected Freshness"
    if problem := _problem_of_time(answer.measured_at_ms):
        return f"returned an invalid freshness: {problem}"
    if isinstance(answer.stale_after_ms, bool) or not isinstance(answer.stale_after_ms, int | float):
        return f"returned stale_after_ms {shown(answer.stale_after_ms)}, expected a number"
    if math.isnan(answer.stale_after_ms) or answer.stale_after_ms < 0:
        return f"returned stale_after_ms {shown(answer.stale_after_ms)}, expected 0 or more"
    counts = [answer.behind, *([] if answer.measured is None else [answer.measured])]
    if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in counts):
        return f"returned invalid counts: measured {shown(answer.measured)}, behind {shown(answer.behind)}"
    return ""


def _problem_of_time(at_ms: object) -> str:
    if at_ms is None:
        return ""
    if isinstance(at_ms, bool) or not isinstance(at_ms, int) or not 0 <= at_ms <= LARGEST_MS:
        return f"measured_at_ms is {shown(at_ms)}, expected epoch milliseconds"
    return ""
