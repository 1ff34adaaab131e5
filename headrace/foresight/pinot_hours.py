"""Reads past loads of partitions and their hourly sums from samples or rollups in Pinot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from assigner.advice.past import half_of
from headrace.clusters.directory import ClusterDirectory
from headrace.foresight.history import HOUR_MS, AskLoads
from headrace.foresight.sums import AskSums, SumQuery
from headrace.settings import HeadraceSettings
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadSums, PartitionLoad
from mirror.model.topics import TopicPartition
from pinot.client import PinotClient
from pinot.partitions.load_queries import partition_rates
from pinot.partitions.pages import Grain
from pinot.partitions.sums import TaskRoom, hourly_sums
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.loads.rates import RateOptions, partition_loads


def hour_of_pinot(
    client: PinotClient, cluster: str, hour_ms: int, grain: Grain
) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads of the hour starting at `hour_ms` (epoch ms). Raises LoadUnavailable. The result is
    empty if Pinot has no loads of this hour."""
    return _means(client, cluster, TimeRange(hour_ms, hour_ms + HOUR_MS), grain)


def _means(
    client: PinotClient, cluster: str, when: TimeRange, grain: Grain
) -> dict[TopicPartition, PartitionLoad]:
    rates = partition_rates(client, cluster, when, statistic=Statistic.MEAN, grain=grain)
    return partition_loads(rates, RateOptions(Statistic.MEAN))


def loads_of_pinot(settings: HeadraceSettings) -> AskLoads:
    """Return a function that reads the mean loads of a time range.

    The query reads rollups or, if they do not exist yet, samples.
    """
    directory = ClusterDirectory(settings.clusters)

    def ask(cluster: ClusterRef, since_ms: int, until_ms: int) -> dict[TopicPartition, PartitionLoad]:
        name, when = directory.of_address(cluster), TimeRange(since_ms, until_ms)
        with closing(PinotClient(settings.pinot)) as client:
            return _means(client, name, when, Grain.HOURS) or _means(client, name, when, Grain.SAMPLES)

    return ask


def sums_of_pinot(settings: HeadraceSettings) -> AskSums:
    """Return a function that reads hourly load sums from Pinot with `hourly_sums`."""
    directory = ClusterDirectory(settings.clusters)

    def ask(cluster: ClusterRef, query: SumQuery, since_ms: int, until_ms: int) -> Mapping[int, LoadSums]:
        name, capacity = directory.of_address(cluster), query.capacity
        size = capacity.usable_bytes_per_second
        room = TaskRoom(size, capacity.usable_messages_per_second, half_of(size))
        with closing(PinotClient(settings.pinot)) as client:
            return hourly_sums(client, name, TimeRange(since_ms, until_ms), query.topics, room)

    return ask
