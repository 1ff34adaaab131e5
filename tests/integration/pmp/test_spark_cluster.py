"""The metrics job on a Spark cluster of two workers, whose processes die one after the other.

The commands are those of docs/metrics-provider/spark-cluster.md.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from mirror.errors import HeadraceError
from pinot.client import PinotClient
from pmp.samples.sample import Sample
from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from tests.kafka_data import make_topic, read_all
from tests.metrics_data import a_sample, fresh_name, write_samples
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import QUICK_JAVA
from tests.sampling import RoundWriter
from tests.servers import KafkaPair
from tests.spark_cluster import SparkCluster

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

START_MS: Final = int(time.time()) // 3600 * 3_600_000 - 2 * 3_600_000
PARTITIONS: Final = 20
ROUND_MS: Final = 10_000
RATE: Final = 1000.0
WAIT_SECONDS: Final = 40
"""Longer than Spark takes to start an executor, on a busy machine too."""
TABLE_TOPIC: Final = "headrace-partition-metrics"


def a_round(number: int) -> list[Sample]:
    return [
        a_sample(
            "orders",
            partition,
            START_MS + number * ROUND_MS,
            size_bytes=number * ROUND_MS / 1000 * RATE,
            bytes_in_per_second=RATE,
        )
        for partition in range(PARTITIONS)
    ]


class World:
    """A Spark cluster, the job on it, and what it has written."""

    def __init__(self, kafka: KafkaPair, client: PinotClient, spark: SparkCluster, folder: Path) -> None:
        self.kafka, self._client, self.spark = kafka, client, spark
        self.clusters = [fresh_name("cluster") for _ in range(2)]
        self._port = free_ports(1)[0]
        config = folder / "headrace.toml"
        config.write_text(self._settings(folder))
        self.job = self.spark.process("job", "driver", {"headrace.toml": str(config)})
        self.writer = RoundWriter(self._write_round)

    def _write_round(self, number: int) -> None:
        for name in self.clusters:
            write_samples(self.kafka.source.address, f"__{name}", a_round(number))

    def _settings(self, folder: Path) -> str:
        source, destination = self.kafka.source.address, self.kafka.destination.address
        lines = [
            f'[clusters.destination]\nbootstrap_servers = "{destination}"',
            "[pmp.rollup]\nenabled = false",
            f'[pmp.job]\nmaster = ""\ncheckpoint_folder = "{folder / "checkpoint"}"',
            f"metrics_port = {self._port}",
            f"executor_wait_seconds = {WAIT_SECONDS}",
        ]
        lines += [
            f'[clusters.{name}]\nbootstrap_servers = "{source}"\n'
            f'[pmp.clusters.{name}]\nsamples_topic = "__{name}"'
            for name in self.clusters
        ]
        return "\n".join(lines)

    def rows(self) -> int:
        """Samples of this world in Pinot; 0 while it does not answer."""
        try:
            return sum(int(row[1]) for row in self.sums())
        except HeadraceError:
            return 0

    def sums(self) -> list[Any]:
        """By cluster: its name, rows, times, first and last time, bytes."""
        return self._client.ask(
            "select cluster, count(*), distinctcount(time_ms), min(time_ms), max(time_ms), sum(size_bytes) "
            f"from partitionMetrics where cluster in ({', '.join(map(repr, self.clusters))}) "
            "group by cluster order by cluster limit 10"
        ).rows

    def wait_for_more(self, what: str) -> None:
        before, rounds = self.rows(), self.writer.rounds
        wait_until(
            lambda: self.rows() > before and self.rows() >= rounds * PARTITIONS * len(self.clusters),
            f"{what}; log: {self.job.log_file}",
        )

    def metric(self, name: str) -> float | None:
        try:
            page = httpx.get(f"http://{LOOPBACK}:{self._port}/metrics").text
        except httpx.TransportError:
            return None
        found = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(found[0]) if found else None

    def wait_for_executors(self, number: int, lost: int) -> None:
        wait_until(
            lambda: (
                self.metric("headrace_pmp_executors") == number
                and self.metric("headrace_pmp_lost_executors_total") == lost
            ),
            f"{number} executors; log: {self.job.log_file}",
        )

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = self.job.log_file.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line["event"].startswith(event)]

    def stop(self) -> None:
        self.job.kill()
        self.spark.stop()


NewWorld = Callable[..., World]


@pytest.fixture
def new_world(
    kafka_pair: KafkaPair, pinot_client: PinotClient, spark_variables: dict[str, str], tmp_path: Path
) -> Iterator[NewWorld]:
    made: list[World] = []

    def make(**how: bool) -> World:
        spark = SparkCluster(tmp_path, spark_variables | QUICK_JAVA, **how)
        made.append(World(kafka_pair, pinot_client, spark, tmp_path))
        for name in made[-1].clusters:
            make_topic(kafka_pair.source.address, f"__{name}", 2)
        return made[-1]

    yield make
    for world in made:
        world.stop()


def timed(what: str, *steps: Callable[[], object]) -> None:
    """Run the steps, and print how long they took."""
    begun = time.monotonic()
    for step in steps:
        step()
    print(f"{what}: samples flow after {time.monotonic() - begun:.0f} s")


def memory_mib(process: ManagedProcess) -> dict[str, list[int]]:
    """Resident memory of a process and its descendants, by program."""
    found: dict[str, list[int]] = defaultdict(list)
    root = psutil.Process(process.pid)
    for one in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error):
            found[f"{one.name()} {one.cmdline()[-1][-30:]}"].append(one.memory_info().rss >> 20)
    return dict(found)


def test_no_death_of_a_spark_process_loses_or_doubles_a_sample(new_world: NewWorld) -> None:
    world = new_world()
    spark, job = world.spark, world.job
    spark.start()
    with world.writer.running():
        job.start()
        world.wait_for_executors(2, 0)
        world.wait_for_more("samples reach Pinot")
        for process in (job, *spark.workers, spark.master):
            print(process.name, memory_mib(process))
        spark.executors()[0].kill()
        timed(
            "executor killed",
            lambda: world.wait_for_executors(2, 1),
            lambda: world.wait_for_more("an executor died"),
        )
        spark.workers[0].kill()
        timed(
            "worker killed",
            lambda: world.wait_for_executors(1, 2),
            lambda: world.wait_for_more("a worker died"),
        )
        spark.workers[0].start()
        timed("worker started", lambda: world.wait_for_executors(2, 2))
        spark.master.kill()
        timed("master killed", lambda: world.wait_for_more("the master is away"))
        spark.master.start()
        timed(
            "master started",
            lambda: wait_until(lambda: spark.state("status") == "ALIVE", "the master has recovered"),
            lambda: world.wait_for_more("the master is back"),
        )
        spark.executors()[0].kill()  # only a master that knows the application replaces it
        timed(
            "executor killed under the new master",
            lambda: world.wait_for_executors(2, 3),
            lambda: world.wait_for_more("an executor died under the new master"),
        )
        assert len(world.events("executor lost")) == 3
        job.kill()
        job.start()
        timed("driver killed and started", lambda: world.wait_for_more("the driver is back"))
    check_each_sample_once(world)
    assert job.stop() == -signal.SIGTERM  # as spark-submit ends, after the job has stopped


def check_each_sample_once(world: World) -> None:
    """In Pinot once; in the topic at least once, repeats being the same row."""
    rounds = world.writer.rounds
    expected = rounds * PARTITIONS * len(world.clusters)
    wait_until(lambda: world.rows() >= expected, f"all {expected} samples in Pinot")
    total = sum(range(rounds)) * PARTITIONS * ROUND_MS / 1000 * RATE
    last = START_MS + (rounds - 1) * ROUND_MS
    assert world.sums() == [
        [name, rounds * PARTITIONS, rounds, START_MS, last, total] for name in sorted(world.clusters)
    ]
    mine = tuple(f"{name}/".encode() for name in world.clusters)
    records = read_all(world.kafka.destination.address, TABLE_TOPIC)
    rows = Counter((one.key, one.value) for one in records if one.key and one.key.startswith(mine))
    print(f"{expected} samples: {len(rows)} rows in the topic, {sum(rows.values()) - len(rows)} repeated")
    assert len(rows) == expected


def test_a_job_that_a_restarted_master_does_not_know_ends_and_resumes(
    new_world: NewWorld,
) -> None:
    world = new_world(recovers=False)
    world.spark.start()
    with world.writer.running():
        world.job.start()
        world.wait_for_executors(2, 0)
        world.wait_for_more("samples reach Pinot")
        world.spark.master.kill()
        world.spark.master.start()
        world.wait_for_executors(0, 2)
        wait_until(lambda: world.events("no executor"), "the job says that it has none")
        assert world.job.wait(PATIENCE_SECONDS) == 1, "it ends, to register anew"
        world.job.start()
        world.wait_for_more("the driver is back")
    check_each_sample_once(world)
