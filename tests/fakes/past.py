"""A history of loads in memory, as Pinot would return it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assigner.advice.past import sums_of
from headrace.foresight.history import HOUR_MS, PastHours
from headrace.foresight.sizing_advisor import History
from headrace.foresight.sums import AskSums, PastSums, SumQuery
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadSums, PartitionLoad
from mirror.model.topics import TopicPartition

Hour = Mapping[TopicPartition, PartitionLoad]


def summed(ask: Callable[[ClusterRef, int], Hour]) -> AskSums:
    """Return the sums of the loads of each hour, which `ask` returns by cluster and start (epoch ms)."""

    def sums(cluster: ClusterRef, query: SumQuery, since_ms: int, until_ms: int) -> dict[int, LoadSums]:
        found: dict[int, LoadSums] = {}
        for hour in range(since_ms, until_ms, HOUR_MS):
            loads = [load for one, load in ask(cluster, hour).items() if one.topic in query.topics]
            if loads:
                found[hour] = sums_of(loads, query.capacity)
        return found

    return sums


def history_of(ask: Callable[[ClusterRef, int], Hour], days: int) -> History:
    """Return a history of some days in which `ask` returns the loads of an hour."""
    return History(
        PastSums(summed(ask), days), PastHours(lambda cluster, since_ms, _: ask(cluster, since_ms))
    )
