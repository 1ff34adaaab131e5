"""What a load provider answers, looked at before anything is planned by it or said of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.plug_ins.entry_points import WHAT_IT_MAY_ANSWER
from headrace.plug_ins.guard import called
from mirror.errors import CorruptData, LoadUnavailable, legible
from mirror.model.bounds import LARGEST_MS, shown
from mirror.model.identifiers import ClusterRef
from mirror.model.load import HIGHEST_RATE, Freshness, LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

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
        report: object = called(
            f"the load provider {self._name}",
            lambda: self._provider.loads(cluster, partitions),
            LoadUnavailable,
        )
        if problem := _problem_of_report(report):
            raise LoadUnavailable(f"the load provider {self._name} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(report, LoadReport)
        asked = set(partitions)
        return replace(
            report,
            loads={key: load for key, load in report.loads.items() if key in asked},
            provider=self._name,
            notes=tuple(legible(str(one), _LONGEST_NOTE) for one in report.notes[:_MOST_NOTES]),
            at_least=frozenset(asked.intersection(report.at_least)),
        )


def freshness_of(name: str, provider: LoadProvider) -> Callable[[ClusterRef], Freshness] | None:
    """How new its loads are, where it has a method that says so. What is found raises CorruptData for an
    answer that cannot be, and what the provider raises."""
    ask = getattr(provider, "freshness", None)
    if not callable(ask):
        return None

    def checked(cluster: ClusterRef) -> Freshness:
        answer: object = called(f"the load provider {name}", lambda: ask(cluster), CorruptData)
        if problem := _problem_of_freshness(answer):
            raise CorruptData(f"the load provider {name} {problem}", advice=WHAT_IT_MAY_ANSWER)
        assert isinstance(answer, Freshness)
        return answer

    return checked


def _problem_of_report(report: object) -> str:
    if not isinstance(report, LoadReport):
        return f"answers with {type(report).__name__}, not LoadReport"
    if not isinstance(report.loads, Mapping):
        return f"has loads in {type(report.loads).__name__}, not by partition"
    if isinstance(report.notes, str) or not isinstance(report.notes, Sequence):
        return f"has notes in {type(report.notes).__name__}, not one after the other"
    if not isinstance(report.at_least, Collection) or not all(
        isinstance(one, TopicPartition) for one in report.at_least
    ):
        return "names lower bounds that are no partitions"
    if problem := _problem_of_time(report.measured_at_ms):
        return f"says: {problem}"
    for partition, load in report.loads.items():
        if problem := _problem_of_load(load):
            return f"says of {partition}: {problem}"
    return ""


def _problem_of_load(load: object) -> str:
    if not isinstance(load, PartitionLoad):
        return f"{type(load).__name__} is no PartitionLoad"
    for what, rate in (("bytes", load.bytes_per_second), ("messages", load.messages_per_second)):
        if rate is None and what == "messages":
            continue
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            return f"{what} per second are {type(rate).__name__}, not a number"
        if not 0 <= rate <= HIGHEST_RATE:  # which NaN is not
            return f"{shown(rate)} {what} per second; possible are 0 to {HIGHEST_RATE:.0e}"
    if not isinstance(load.level, LoadLevel) or not isinstance(load.rate_source, RateSource):
        return f"level {shown(load.level)} and source {shown(load.rate_source)} are not both known"
    return _problem_of_time(load.measured_at_ms)


def _problem_of_freshness(answer: object) -> str:
    if not isinstance(answer, Freshness):
        return f"answers with {type(answer).__name__}, not Freshness"
    if problem := _problem_of_time(answer.measured_at_ms):
        return f"says: {problem}"
    if isinstance(answer.stale_after_ms, bool) or not isinstance(answer.stale_after_ms, int | float):
        return f"has loads stale after {shown(answer.stale_after_ms)}, not a number of milliseconds"
    if math.isnan(answer.stale_after_ms) or answer.stale_after_ms < 0:
        return f"has loads stale after {shown(answer.stale_after_ms)} milliseconds"
    counts = [answer.behind, *([] if answer.measured is None else [answer.measured])]
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in counts):
        return f"counts {shown(answer.measured)} partitions with {shown(answer.behind)} behind"
    return ""


def _problem_of_time(at_ms: object) -> str:
    if at_ms is None:
        return ""
    if isinstance(at_ms, bool) or not isinstance(at_ms, int) or not 0 <= at_ms <= LARGEST_MS:
        return f"it was measured at {shown(at_ms)}; epoch milliseconds are needed"
    return ""
