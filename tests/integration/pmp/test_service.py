"""Healthy and failing clusters in one job, and clusters added and removed while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from mirror.adapters.system_clock import SystemClock
from mirror.errors import ConfigError
from mirror.loggers import set_threshold
from mirror.settings import KafkaCluster
from pinot.tables import PARTITION_METRICS
from pmp.job.job_metrics import JobMetrics
from pmp.job.service import PmpService
from pmp.job.streams import Configuration
from pmp.settings import JobSettings, PmpSettings, SampledCluster
from stack.ports import free_ports
from tests.kafka_data import delete_records, make_topic
from tests.metrics_data import a_sample, fresh_name, rows_in, write_samples, write_values
from tests.patience import wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


class World:
    """A running service whose configuration the test may change."""

    def __init__(self, spark: SparkSession, kafka: KafkaPair, folder: Path) -> None:
        self.prefix = fresh_name("service")
        self.address = kafka.source.address
        self.settings = PmpSettings(
            output_cluster="out",
            topic=f"{self.prefix}-metrics",
            dead_letter_topic=f"{self.prefix}-dead",
            clusters={},
            job=JobSettings(
                checkpoint_folder=str(folder), trigger_interval_seconds=0.2, reload_interval_seconds=0.5
            ),
        )
        self.clusters = {"out": KafkaCluster(bootstrap_servers=self.address)}
        for topic in (self.settings.topic, self.settings.dead_letter_topic):
            make_topic(self.address, topic)
        self.metrics = JobMetrics()
        self.service = self.a_service(spark, self.metrics)

    def a_service(self, spark: SparkSession, metrics: JobMetrics | None = None) -> PmpService:
        """Return a service with this checkpoint folder."""
        return PmpService(
            spark, lambda: Configuration(self.settings, self.clusters, 3650), SystemClock(), metrics
        )

    def add(self, name: str, address: str | None = None) -> str:
        """Add a cluster of that name; return its samples topic."""
        topic = f"__{self.prefix}-{name}"
        if address is None:
            make_topic(self.address, topic)
        sampled = SampledCluster(samples_topic=topic, execution_topic=f"{topic}-on-execution")
        self.clusters = self.clusters | {name: KafkaCluster(bootstrap_servers=address or self.address)}
        clusters = self.settings.clusters | {name: sampled}
        self.settings = self.settings.model_copy(update={"clusters": clusters})
        return topic

    def remove(self, name: str) -> None:
        clusters = {alias: sampled for alias, sampled in self.settings.clusters.items() if alias != name}
        self.settings = self.settings.model_copy(update={"clusters": clusters})

    def rows(self) -> list[dict[str, Any]]:
        return rows_in(self.address, self.settings.topic, PARTITION_METRICS)

    def shows(self, *lines: str) -> Callable[[], bool]:
        return lambda: set(lines) <= set(generate_latest(self.metrics.registry).decode().splitlines())


@pytest.fixture
def world(spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path) -> Iterator[World]:
    made = World(spark, kafka_pair, tmp_path)
    yield made
    made.service.stop(60)
    assert not made.service.is_running()


def test_a_cluster_that_is_down_is_visible_and_delays_nobody(world: World) -> None:
    world.add("down", f"127.0.0.1:{free_ports(1)[0]}")
    topic = world.add("up")
    world.service.start()
    write_samples(world.address, topic, [a_sample(partition=p) for p in range(7)])
    write_values(world.address, topic, [b"no sample"])
    wait_until(lambda: len(world.rows()) == 7)
    wait_until(
        world.shows(
            'headrace_pmp_up{cluster="up"} 1.0',
            'headrace_pmp_up{cluster="down"} 0.0',
            'headrace_pmp_records_read_total{cluster="up"} 8.0',
            'headrace_pmp_samples_written_total{cluster="up"} 7.0',
            'headrace_pmp_lag_records{cluster="up"} 0.0',
            'headrace_pmp_malformed_total{cluster="up",reason="version"} 1.0',
        ),
    )
    assert set(world.service.problems()) == {"down"}
    assert {row["cluster"] for row in world.rows()} == {"up"}


def test_clusters_come_and_go_while_the_job_runs(world: World) -> None:
    first = world.add("first")
    world.service.start()
    write_samples(world.address, first, [a_sample(time_ms=1_795_000_000_000)])
    wait_until(lambda: [row["cluster"] for row in world.rows()] == ["first"])
    second = world.add("second")
    write_samples(world.address, second, [a_sample(time_ms=1_795_000_000_000)])
    wait_until(lambda: [row["cluster"] for row in world.rows()] == ["first", "second"])
    world.remove("first")
    wait_until(lambda: 'up{cluster="first"}' not in generate_latest(world.metrics.registry).decode())
    write_samples(world.address, first, [a_sample(partition=7), a_sample(partition=8)])
    delete_records(world.address, first, 0, before=3)  # these two expire before they are read
    write_samples(world.address, first, [a_sample(time_ms=1_795_000_010_000, size_bytes=1_000_700.0)])
    write_samples(world.address, second, [a_sample(time_ms=1_795_000_010_000)])
    wait_until(lambda: len(world.rows()) == 3)
    world.add("broken")
    world.clusters = {name: cluster for name, cluster in world.clusters.items() if name != "broken"}
    write_samples(world.address, second, [a_sample(time_ms=1_795_000_020_000)])
    wait_until(lambda: len(world.rows()) == 4, "an invalid configuration stops nothing")
    world.remove("broken")
    world.settings = world.settings.model_copy(
        update={"clusters": world.settings.clusters | {"first": SampledCluster(samples_topic=first)}}
    )
    wait_until(lambda: len(world.rows()) == 5, "the first cluster continues from its checkpoint")
    wait_until(world.shows('headrace_pmp_expired_records_total{cluster="first"} 2.0'))
    (late,) = [row for row in world.rows() if row["cluster"] == "first" and row["growth_ms"]]
    assert late["growth_bytes"] == 700.0


def test_a_wrong_configuration_at_the_start_is_an_error(world: World) -> None:
    world.add("known")
    world.clusters = {}
    with pytest.raises(ConfigError, match="cluster out"):
        world.service.start()


def test_a_second_job_over_the_checkpoint_reads_nothing_until_the_first_has_ended(
    world: World, spark: SparkSession
) -> None:
    topic = world.add("east")
    world.service.start()
    write_samples(world.address, topic, [a_sample()])
    wait_until(lambda: len(world.rows()) == 1)
    second = world.a_service(spark)
    second.start()
    try:
        wait_until(lambda: "another job" in second.problems().get("east", ""))
        assert not world.service.problems()
        world.service.stop(60)
        wait_until(lambda: not second.problems(), "the second has taken over")
        write_samples(world.address, topic, [a_sample(time_ms=1_795_000_010_000, size_bytes=1_000_300.0)])
        wait_until(lambda: [row["growth_bytes"] for row in world.rows()] == [0.0, 300.0])
    finally:
        second.stop(60)


def test_another_number_of_buckets_over_an_old_checkpoint_is_refused(
    world: World, spark: SparkSession
) -> None:
    topic = world.add("east")
    world.service.start()
    write_samples(world.address, topic, [a_sample()])
    wait_until(lambda: len(world.rows()) == 1)
    begun = world.settings.job
    for wrong, sentence in (
        ({"checkpoint_folder": "other"}, "checkpoint_folder"),
        ({"buckets": 32}, "with 16"),
    ):
        world.settings = world.settings.model_copy(update={"job": begun.model_copy(update=wrong)})
        wait_until(lambda said=sentence: said in world.service.problems().get("configuration", ""))  # type: ignore[misc]
    write_samples(world.address, topic, [a_sample(time_ms=1_795_000_010_000)])
    wait_until(lambda: len(world.rows()) == 2, "the job continues with its old settings")
    world.service.stop(60)
    with pytest.raises(ConfigError, match=r"buckets is 32.* with 16"):
        world.a_service(spark).start()


def test_many_clusters_are_started_at_the_same_time(world: World) -> None:
    topics = [world.add(f"cluster-{number}") for number in range(12)]
    world.service.start()
    for topic in topics:
        write_samples(world.address, topic, [a_sample()])
    wait_until(lambda: len(world.rows()) == len(topics))
    assert not world.service.problems()


def advised(said: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the log lines that advise to add a cluster."""
    return [one for one in said if "[pmp.clusters." in one.get("advice", "")]


def test_what_is_waited_for_is_said_once_and_that_it_has_come(world: World) -> None:
    set_threshold("info")
    with capture_logs() as said:
        world.service.start()
        wait_until(lambda: advised(said), "nothing to read")
        topic = world.add("east")
        wait_until(lambda: [one for one in said if one["event"] == "waiting for samples"], "an empty topic")
        write_samples(world.address, topic, [a_sample()])
        wait_until(lambda: [one for one in said if one["event"] == "samples arrived"], "samples")
    (wait,) = [one for one in said if one["event"] == "waiting for samples"]
    assert f" {topic} " in wait["problem"]
    assert len(advised(said)) == 1


def test_a_cluster_without_a_topic_of_samples_is_named(world: World) -> None:
    world.add("east", world.address)
    set_threshold("info")
    with capture_logs() as said:
        world.service.start()
        wait_until(lambda: [one for one in said if one["event"] == "waiting for samples"], "no topic")
    (wait,) = [one for one in said if one["event"] == "waiting for samples"]
    assert "no topic" in wait["problem"]
    assert world.service.problems() == {}
