"""A restarted Pinot responds while it still reads its topic: the provider rejects its partial results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadReport, RateSource
from mirror.model.topics import TopicPartition
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.deployment.deploy import apply
from pinot.deployment.ingestion import positions
from pinot.schemas import Placement
from pinot.tables import PARTITION_METRICS, Statistic
from pmp.loads.provider import PinotLoadProvider, ProviderInputs
from pmp.loads.wholeness import Progress
from pmp.settings import PmpSettings, ProviderSettings
from stack.pinot import PinotServer
from tests.fakes.clock import ManualClock
from tests.kafka_data import make_topic
from tests.metrics_data import MetricsWorld, a_metric, pinot_settings
from tests.patience import wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

NOW = 1_795_000_000_000
CLUSTER = ClusterRef("east")
PARTITIONS = [TopicPartition(f"t{number}", 0) for number in range(20)]
ROUNDS = 30


def table(pinot: PinotServer, address: str) -> None:
    with closing(PinotController(pinot_settings(pinot))) as controller:
        apply(controller, {PARTITION_METRICS: Placement(address, PARTITION_METRICS.topic, 3650)})


def rates(report: LoadReport) -> dict[TopicPartition, float]:
    return {partition: load.bytes_per_second for partition, load in report.loads.items()}


def test_a_part_of_the_rows_is_never_taken_for_all_loads(
    new_kafka: NewKafka, new_pinot: Callable[..., PinotServer]
) -> None:
    kafka, pinot = new_kafka(nodes=2), new_pinot()
    make_topic(kafka.address, PARTITION_METRICS.topic, 4)
    table(pinot, kafka.address)
    chosen = ProviderSettings(window_seconds=3600, refresh_seconds=0, statistic=Statistic.MEAN)
    settings, clock = PmpSettings(provider=chosen), ManualClock(NOW)
    server = pinot_settings(pinot).model_copy(update={"attempts": 1, "timeout_seconds": 5.0})
    with closing(PinotClient(server)) as client, closing(PinotController(server)) as controller:
        world = MetricsWorld(client, kafka.address)
        rows = [
            a_metric(CLUSTER, partition.topic, 0, NOW - back * 10_000, growth_bytes=1e3 * (1 + back))
            for back in reversed(range(ROUNDS))
            for partition in PARTITIONS
        ]
        world.put(PARTITION_METRICS, rows)
        ends = TopicClient(
            KafkaCluster(bootstrap_servers=kafka.address), PARTITION_METRICS.topic, "test"
        ).ends()
        assert sum(ends.values()) == len(rows)
        progress = Progress(lambda: ends, lambda: positions(controller, PARTITION_METRICS.name))
        assert progress.read() == ends
        knows = PinotLoadProvider(client, settings, clock, ProviderInputs(progress=progress))
        before = knows.loads(CLUSTER, PARTITIONS)
        assert {load.rate_source for load in before.loads.values()} == {RateSource.SLOPE}

        pinot.kill()
        kafka.nodes[1].kill()  # its records cannot be read again
        pinot.start()
        part = range(1, len(rows))
        wait_until(lambda: world.count(PARTITION_METRICS) in part, "some of the rows", interval_seconds=0.05)
        found = knows.measured(CLUSTER, NOW, 3_600_000)
        assert 0 < len(found.loads) < len(PARTITIONS), "not a partial result that looks complete"
        kept = knows.loads(CLUSTER, PARTITIONS)
        assert rates(kept) == rates(before)
        assert {load.rate_source for load in kept.loads.values()} == {RateSource.HELD}
        assert " 0 s " in kept.notes[0]
        remembers_nothing = PinotLoadProvider(client, settings, clock, ProviderInputs(progress=progress))
        with pytest.raises(LoadUnavailable, match=r"partial result: \d+ records?"):
            remembers_nothing.loads(CLUSTER, PARTITIONS)

        kafka.nodes[1].start()
        wait_until(lambda: not knows.loads(CLUSTER, PARTITIONS).notes, "all rows are read again")
        for provider in (knows, remembers_nothing):
            assert provider.loads(CLUSTER, PARTITIONS).loads == before.loads
