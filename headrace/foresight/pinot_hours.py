"""Mean loads of one hour, from samples or from their rollup."""

from __future__ import annotations

from contextlib import closing

from headrace.clusters.directory import ClusterDirectory
from headrace.foresight.history import HOUR_MS, AskHour
from headrace.settings import HeadraceSettings
from mirror.model.identifiers import ClusterRef
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition
from pinot.client import PinotClient
from pinot.partitions.loads import partition_rates
from pinot.partitions.pages import Grain
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.loads.rates import RateOptions, partition_loads


def hour_of_pinot(
    client: PinotClient, cluster: str, hour_ms: int, grain: Grain
) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads of the hour starting at `hour_ms` (epoch ms); empty if Pinot has none. Raises
    LoadUnavailable."""
    when = TimeRange(hour_ms, hour_ms + HOUR_MS)
    rates = partition_rates(client, cluster, when, statistic=Statistic.MEAN, grain=grain)
    return partition_loads(rates, RateOptions(Statistic.MEAN))


def rolled_up_hours_of(settings: HeadraceSettings) -> AskHour:
    """Return a function that reads the rollup of an hour, or its samples if there is no rollup yet."""
    directory = ClusterDirectory(settings.clusters)

    def ask(cluster: ClusterRef, hour_ms: int) -> dict[TopicPartition, PartitionLoad]:
        name = directory.of_address(cluster)
        with closing(PinotClient(settings.pinot)) as client:
            found = hour_of_pinot(client, name, hour_ms, Grain.HOURS)
            return found or hour_of_pinot(client, name, hour_ms, Grain.SAMPLES)

    return ask
