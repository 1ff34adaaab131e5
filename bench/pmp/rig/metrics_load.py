"""Samples and servers of the metrics provider benchmarks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from mirror.settings import KafkaCluster
from pinot.deployment.controller import PinotController
from pinot.deployment.deploy import apply
from pinot.schemas import Placement
from pinot.settings import PinotSettings
from pinot.tables import TABLES
from pmp.job.spark_session import open_session
from pmp.job.streams import Configuration
from pmp.samples.decoder import SAMPLE_ROWS
from pmp.settings import JobSettings, PmpSettings, SampledCluster
from stack.jars import jar_sets
from stack.jars.java import spark_environment
from stack.kafka import KafkaCluster as Broker
from stack.kafka import NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.server import Jvm

CLUSTER = "bench"
START_MS = 1_795_000_000_000 // 3_600_000 * 3_600_000
PARTITIONS_OF_TOPIC = 10
_FOR_EVER_DAYS = 3650


@dataclass
class Servers:
    """One broker and, if requested, Pinot with its tables."""

    broker: Broker
    pinot: PinotServer | None
    folder: Path

    @property
    def cluster(self) -> KafkaCluster:
        return KafkaCluster(bootstrap_servers=self.broker.address)

    @property
    def pinot_settings(self) -> PinotSettings:
        assert self.pinot is not None
        return PinotSettings(
            controller=self.pinot.controller_address,
            broker=self.pinot.broker_address,
            timeout_seconds=60,
            attempts=1,
        )

    def settings(self, samples_topic: str, **job: Any) -> PmpSettings:
        """Return the settings of a job that reads one topic of samples."""
        return PmpSettings(
            output_cluster=CLUSTER,
            clusters={CLUSTER: SampledCluster(samples_topic=samples_topic)},
            job=JobSettings(
                **{
                    "checkpoint_folder": str(self.folder / f"spark-{samples_topic}"),
                    "trigger_interval_seconds": 0,
                    **job,
                }
            ),
        )

    def configuration(self, settings: PmpSettings) -> Configuration:
        """Return the configuration of a runnable job that accepts samples of any age."""
        return Configuration(settings, {CLUSTER: self.cluster}, _FOR_EVER_DAYS)


@contextmanager
def servers(*, pinot_heap_mib: int = 0) -> Iterator[Servers]:
    """Run a broker and, if it has a heap size, Pinot, for the context."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker("kafka", folder / "kafka", [NodePorts.free()], jvm=Jvm(heap_mib=512))
        pinot = None
        if pinot_heap_mib:
            jvm = Jvm(heap_mib=pinot_heap_mib)
            pinot = PinotServer("pinot", folder / "pinot", PinotPorts.free(), jvm=jvm)
        try:
            broker.start()
            made = Servers(broker, pinot, folder)
            make_topics(
                made, *((table.topic, 4) for table in TABLES), ("headrace-partition-metrics-dead-letters", 1)
            )
            if pinot is not None:
                pinot.start()
                controller = PinotController(made.pinot_settings)
                apply(
                    controller,
                    {table: Placement(broker.address, table.topic, _FOR_EVER_DAYS) for table in TABLES},
                )
                controller.close()
            yield made
        finally:
            broker.kill()
            if pinot is not None:
                pinot.kill()


def spark(driver_memory: str = "3g") -> SparkSession:
    """Start Spark like `headrace pmp run`."""
    os.environ.update(spark_environment())
    files = [str(path) for path in jar_sets.jar_files("spark")]
    return open_session(JobSettings(driver_memory=driver_memory), files)


def make_topics(made: Servers, *topics: tuple[str, int]) -> None:
    """Create topics, given by name and partition count."""
    admin = AdminClient({"bootstrap.servers": made.broker.address})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in topics]).values():
        future.result(30)


def rounds(partitions: int, count: int, *, first: int = 0, step_ms: int = 120_000) -> Iterator[bytes]:
    """Yield samples in format version 1: `count` intervals of all partitions, heavy-tailed loads, growing
    logs."""
    rows = np.zeros(partitions, dtype=SAMPLE_ROWS[1])
    rates = np.random.default_rng(7).lognormal(3, 2, partitions)
    rows["version"], rows["partition"] = 1, np.arange(partitions) % PARTITIONS_OF_TOPIC
    rows["broker"] = np.arange(partitions) % 3 + 1
    rows["bytes_in"], rows["bytes_out"], rows["messages_in"] = rates, rates * 2, rates
    names = [f"topic-{number // PARTITIONS_OF_TOPIC:06}".encode() for number in range(partitions)]
    size = SAMPLE_ROWS[1].itemsize
    for number in range(first, first + count):
        rows["time_ms"] = START_MS + number * step_ms
        rows["size"] = number * rates * step_ms / 1000 / 1024
        packed = rows.tobytes()
        for index, name in enumerate(names):
            yield packed[index * size : (index + 1) * size] + name


def write(made: Servers, topic: str, values: Iterator[bytes]) -> int:
    """Write values to a topic like Cruise Control: gzip, no key, long runs on one partition."""
    producer = Producer(
        {
            "bootstrap.servers": made.broker.address,
            "compression.type": "gzip",
            "linger.ms": 200,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "sticky.partitioning.linger.ms": 5_000,
        }
    )
    count = 0
    for value in values:
        while True:
            try:
                producer.produce(topic, value=value)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
    producer.flush()
    return count
