"""The Spark job from Kafka to Kafka: samples a second and CPU a sample, by volume and with growth."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.metrics_load import CLUSTER, Servers, make_topics, rounds, servers, spark, write
from pmp.decoding import decode
from pmp.job import read_samples, start_stream, streams, write_stream
from pmp.reading import ROWS
from pmp.settings import PmpSettings
from pmp.transforms import ClusterLabels, bucketed, outgoing

_PARTITIONS = 100_000


def main() -> None:
    """Warm batches of 600,000 samples, of a tenth of that, and without growth."""
    with servers() as made:
        session = spark()
        try:
            make_topics(made, ("large", 32), ("small", 32), ("plain", 32))
            print(f"samples of {_PARTITIONS:,} partitions: {write(made, 'large', rounds(_PARTITIONS, 48)):,}")
            write(made, "small", rounds(_PARTITIONS // 10, 60))
            write(made, "plain", rounds(_PARTITIONS, 48))
            print(
                "end to end, broker on the same cores   a batch    samples/s"
                "  us/sample  CPU us Spark  CPU us broker"
            )
            cpu = _Cpu(made.broker.nodes[0].pid)
            for topic, batch, name in (
                ("large", 600_000, "with growth"),
                ("small", 60_000, "with growth, a tenth of the volume"),
                ("plain", 600_000, "without growth and state"),
            ):
                settings = made.settings(topic, samples_per_trigger=batch)
                start = _start_plain if topic == "plain" else _start
                _print(start(session, settings, made), batch, name, cpu)
        finally:
            session.stop()


def _start(session: SparkSession, settings: PmpSettings, made: Servers) -> StreamingQuery:
    return start_stream(session, settings, streams(settings, {CLUSTER: made.cluster})[CLUSTER])


def _start_plain(session: SparkSession, settings: PmpSettings, made: Servers) -> StreamingQuery:
    """The same job if it remembered nothing: what growth costs is the difference."""
    stream = streams(settings, {CLUSTER: made.cluster})[CLUSTER]
    records = bucketed(read_samples(session, settings, stream), stream.sampled.execution_topic)
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


def _print(query: StreamingQuery, batch: int, name: str, cpu: _Cpu) -> None:
    before = cpu.seconds()
    query.processAllAvailable()
    used = [after - earlier for after, earlier in zip(cpu.seconds(), before, strict=True)]
    reports = [report for report in query.recentProgress if report.numInputRows > batch * 0.9]
    total = sum(report.numInputRows for report in query.recentProgress)
    query.stop()
    rate = statistics.median(
        report.numInputRows / report.durationMs["triggerExecution"] * 1000 for report in reports[2:]
    )
    spark_us, broker_us = (seconds * 1e6 / total for seconds in used)
    print(f"  {name:34} {batch:9,} {rate:12,.0f} {1e6 / rate:10.2f} {spark_us:12.1f} {broker_us:13.1f}")
