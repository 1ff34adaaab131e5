"""Kills of the job and of Pinot, and restarts of the brokers, during a stream of samples."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror.errors import HeadraceError
from pinot.client import PinotClient
from pmp.samples.sample import EXECUTION_TOPIC, SAMPLES_TOPIC, Sample
from stack.jars.spark import job_environment
from stack.kafka import KafkaCluster
from stack.pinot import PinotServer
from stack.process.managed_process import ManagedProcess
from tests.kafka_data import make_topic, read_all
from tests.metrics_data import a_sample, apply_tables, pinot_settings, write_samples, write_values
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.sampling import RoundWriter
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

START_MS = int(time.time()) // 3600 * 3_600_000 - 2 * 3_600_000
CLUSTERS = ("east", "west", "north")
PARTITIONS = 10
ROUND_MS = 10_000
DEAD_LETTERS = "headrace-partition-metrics-dead-letters"


def _config(folder: Path, kafkas: dict[str, KafkaCluster], pinot: PinotServer) -> Path:
    lines = [
        f'[pinot]\ncontroller = "{pinot.controller_address}"\nbroker = "{pinot.broker_address}"',
        f'[pmp.job]\ncheckpoint_folder = "{folder / "spark"}"',
        "trigger_interval_seconds = 0.2\nquick_start = true",
        "[pmp.rollup]\ninterval_seconds = 1",
    ]
    lines += [f'[clusters.{name}]\nbootstrap_servers = "{kafka.address}"' for name, kafka in kafkas.items()]
    lines += [
        f'[pmp.clusters.{name}]\nsamples_topic = "{SAMPLES_TOPIC}-{name}"\n'
        f'execution_topic = "{EXECUTION_TOPIC}-{name}"'
        for name in CLUSTERS
    ]
    path = folder / "headrace.toml"
    path.write_text("\n".join(lines))
    return path


class SampleRounds:
    """Rounds of samples of every cluster; some to the execution topic, and some with a malformed value."""

    def __init__(self, kafkas: dict[str, KafkaCluster]) -> None:
        self._addresses = {name: kafka.address for name, kafka in kafkas.items()}
        self.malformed = 0

    def write(self, number: int) -> None:
        """Write one round."""
        for name in CLUSTERS:
            topic = (SAMPLES_TOPIC, EXECUTION_TOPIC)[number % 5 == 4]
            write_samples(self._addresses[name], f"{topic}-{name}", _round(name, number))
        if number % 4 == 0:
            write_values(self._addresses["east"], f"{SAMPLES_TOPIC}-east", [b"\x07 no sample"])
            self.malformed += 1


def _round(name: str, number: int) -> list[Sample]:
    rate = 1000.0 * (CLUSTERS.index(name) + 1)
    return [
        a_sample(
            f"topic-{partition % 3}",
            partition,
            START_MS + number * ROUND_MS,
            size_bytes=number * ROUND_MS / 1000 * rate,
            bytes_in_per_second=rate,
        )
        for partition in range(PARTITIONS)
    ]


class World:
    """Two Kafka clusters, a Pinot and a job for this test; two source clusters share a broker."""

    def __init__(self, first: KafkaCluster, second: KafkaCluster, pinot: PinotServer, folder: Path) -> None:
        self.kafkas = {"east": first, "west": first, "north": second, "destination": second}
        self.pinot = pinot
        self.client = PinotClient(pinot_settings(pinot))
        config = str(_config(folder, self.kafkas, pinot))
        command = [sys.executable, "-m", "headrace", "pmp", "run", "--config", config]
        self.job = ManagedProcess("pmp", command, job_environment(), folder / "pmp.log")

    def count(self, table: str = "partitionMetrics", what: str = "count(*)") -> int:
        """Return the result of a query; -1 while Pinot does not respond."""
        try:
            return int(self.client.ask(f"select {what} from {table} limit 1").rows[0][0])
        except HeadraceError:
            return -1

    def wait_for_more(self, what: str) -> None:
        before = max(0, self.count())
        wait_until(lambda: self.count() > before, f"{what}; log: {self.job.log_file}")

    def stop(self) -> None:
        self.job.stop()
        self.client.close()


@pytest.fixture
def world(new_kafka: NewKafka, new_pinot: Callable[..., PinotServer], tmp_path: Path) -> Iterator[World]:
    with ThreadPoolExecutor() as pool:
        first, second = (pool.submit(new_kafka, name) for name in ("first", "second"))
        pinot = pool.submit(new_pinot)
        made = World(first.result(), second.result(), pinot.result(), tmp_path)
    for name in CLUSTERS:
        make_topic(made.kafkas[name].address, f"{SAMPLES_TOPIC}-{name}", 4)
        make_topic(made.kafkas[name].address, f"{EXECUTION_TOPIC}-{name}", 1)
    destination = made.kafkas["destination"].address
    make_topic(destination, DEAD_LETTERS, 1)
    apply_tables(made.pinot, destination, 2)
    yield made
    made.stop()


def test_every_sample_is_in_pinot_exactly_once(world: World) -> None:
    samples = SampleRounds(world.kafkas)
    writer = RoundWriter(samples.write)
    with writer.running():
        world.job.start()
        world.wait_for_more("samples reach Pinot")
        world.job.kill()
        world.job.start()
        world.pinot.kill()
        world.pinot.start()
        world.wait_for_more("samples flow again")
        for kafka in (world.kafkas["east"], world.kafkas["destination"]):
            kafka.stop()
            kafka.start()
        world.job.kill()
        world.job.start()
        world.wait_for_more("samples flow after the restart of both brokers")
    expected = writer.rounds * PARTITIONS * len(CLUSTERS)
    wait_until(lambda: world.count() >= expected, f"all {expected} samples in Pinot")
    _assert_each_once(world.client, writer.rounds)
    letters = read_all(world.kafkas["destination"].address, DEAD_LETTERS)
    assert {dict(letter.headers)["headrace.reason"] for letter in letters} == {b"version"}
    assert len({letter.key for letter in letters}) == samples.malformed
    wait_until(lambda: world.count("partitionMetricsHourly", "sum(samples)") == expected, "the rollup")
    os.kill(world.job.pid, signal.SIGTERM)
    assert world.job.wait(PATIENCE_SECONDS) == 0


def _assert_each_once(client: PinotClient, rounds: int) -> None:
    answer = client.ask(
        "select cluster, count(*), distinctcount(time_ms), min(time_ms), max(time_ms), sum(size_bytes), "
        "min(bytes_in_per_second), max(bytes_in_per_second) "
        "from partitionMetrics group by cluster order by cluster limit 10"
    )
    total = sum(range(rounds)) * PARTITIONS * ROUND_MS / 1000
    for name, count, times, oldest, newest, size, least, most in answer.rows:
        rate = 1000.0 * (CLUSTERS.index(name) + 1)
        assert (count, times) == (rounds * PARTITIONS, rounds)
        assert (oldest, newest) == (START_MS, START_MS + (rounds - 1) * ROUND_MS)
        assert (size, least, most) == (total * rate, rate, rate)
    twice = client.ask(
        "select cluster, topic, kafka_partition, time_ms, count(*) from partitionMetrics "
        "group by cluster, topic, kafka_partition, time_ms having count(*) > 1 limit 10"
    )
    assert twice.rows == []
