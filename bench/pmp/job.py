"""The Spark job from Kafka to Kafka: samples per second and CPU per sample, by volume, and without growth."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.pmp.rig.metrics_load import CLUSTER, Servers, make_topics, rounds, servers, spark, write
from pmp.job.reader import ROWS
from pmp.job.streams import read_samples, start_stream, streams, write_stream
from pmp.job.transforms import ClusterLabels, bucketed, outgoing
from pmp.samples.decoder import decode

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Volume:
    """Size of a cluster: its partitions, sampling intervals, and samples per batch."""

    topic: str
    partitions: int
    rounds: int
    batch: int


VOLUMES = (
    Volume("tenth", 10_000, 60, 60_000),
    Volume("whole", 100_000, 36, 600_000),
    Volume("tenfold", 1_000_000, 6, 1_000_000),
)


def main() -> None:
    """Measure warm batches of increasing volume, and the middle one again without growth."""
    with servers() as made:
        fill(made, VOLUMES)
        measure(made, VOLUMES)


def fill(made: Servers, volumes: Sequence[Volume]) -> None:
    """Write all samples before any is read."""
    make_topics(made, *((volume.topic, 32) for volume in volumes))
    for volume in volumes:
        write(made, volume.topic, rounds(volume.partitions, volume.rounds))


def measure(made: Servers, volumes: Sequence[Volume]) -> None:
    """Read and write the volumes one after the other in one warm session."""
    session = spark()
    cpu = _Cpu(made.broker.nodes[0].pid)
    middle = volumes[len(volumes) // 2]
    print("end to end, broker on the same cores          samples     batch    samples/s   CPU us a sample")
    print("                                                                                Spark    broker")
    try:
        for volume in (middle, *volumes):  # the first run warms up
            query = _start(session, made, volume)
            _print(query, volume, f"{volume.partitions:,} partitions", cpu)
        query = _start(session, made, middle, plain=True)
        _print(query, middle, "without growth and its state", cpu)
    finally:
        session.stop()


def _start(session: SparkSession, made: Servers, volume: Volume, *, plain: bool = False) -> StreamingQuery:
    """Start the job from the oldest sample. `plain`: without state, to measure the cost of growth."""
    folder = str(made.folder / f"spark-{next(_numbers)}")
    settings = made.settings(volume.topic, samples_per_trigger=volume.batch, checkpoint_folder=folder)
    stream = streams(made.configuration(settings))[CLUSTER]
    if not plain:
        return start_stream(session, settings, stream)
    records = read_samples(session, settings, stream)
    records = bucketed(records, stream.sampled.execution_topic, settings.job.buckets)
    rows: DataFrame = records.repartition(settings.job.parallelism, "bucket").mapInArrow(_decoded, ROWS)
    labels = ClusterLabels(stream.name, "", "bench")
    topics = {"metrics": settings.topic, "dead_letters": settings.dead_letter_topic}
    return write_stream(outgoing(rows, labels, topics, ("a", "b")), settings, stream)


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        decoded = decode(batch.column("value"))
        metrics = decoded.metrics
        rows = len(batch)
        columns = {
            "topic": decoded.topic,
            "kafka_partition": decoded.partition,
            "time_ms": decoded.time_ms,
            "broker": decoded.broker,
            "execution": batch.column("execution"),
            "bytes_in_per_second": metrics["bytes_in"],
            "bytes_out_per_second": metrics["bytes_out"],
            "messages_in_per_second": metrics["messages_in"],
            "size_bytes": metrics["size"],
            "growth_bytes": np.zeros(rows),
            "growth_ms": np.zeros(rows, np.int64),
            "inflow_bytes_per_second": metrics["bytes_in"],
            "shrunk": np.zeros(rows, np.int64),
            "reason": pa.nulls(rows, pa.string()),
            "value": pa.nulls(rows, pa.binary()),
            "origin_partition": pa.nulls(rows, pa.int64()),
            "origin_offset": pa.nulls(rows, pa.int64()),
            "origin_bytes": pa.nulls(rows, pa.int64()),
            "too_old": pa.nulls(rows, pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)


class _Cpu:
    """CPU seconds of Spark (its JVM and Python workers) and of the broker."""

    def __init__(self, broker_pid: int) -> None:
        self._broker = psutil.Process(broker_pid)

    def seconds(self) -> tuple[float, float]:
        job = [psutil.Process(), *psutil.Process().children(recursive=True)]
        kept = [process for process in job if process.pid != self._broker.pid]
        return sum(map(_used, kept)), _used(self._broker)


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _print(query: StreamingQuery, volume: Volume, name: str, cpu: _Cpu) -> None:
    before = cpu.seconds()
    query.processAllAvailable()
    used = [after - earlier for after, earlier in zip(cpu.seconds(), before, strict=True)]
    reports = [report for report in query.recentProgress if report.numInputRows > volume.batch * 0.9]
    query.stop()
    total = volume.partitions * volume.rounds
    rate = statistics.median(
        report.numInputRows / report.durationMs["triggerExecution"] * 1000 for report in reports[2:]
    )
    spark_us, broker_us = (seconds * 1e6 / total for seconds in used)
    print(
        f"  {name:36} {total:13,} {volume.batch:9,} {rate:12,.0f} {spark_us:9.1f} {broker_us:9.1f}",
        flush=True,
    )
