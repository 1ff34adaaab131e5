"""Millions of rows of samples and rollups, generated and written by Spark, for the query benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 the name that Spark's users know
from pyspark.sql.avro.functions import to_avro

from bench.pmp.rig.metrics_load import PARTITIONS_OF_TOPIC, START_MS, Servers
from mirror.errors import AnalyticsError, NotFound
from pinot.client import PinotClient
from pinot.partitions.rollups import HOUR_MS
from pinot.schemas import avro_schema
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY, Table
from stack.process.wait import wait_until

ROUND_MS = 120_000


def write_samples(session: SparkSession, made: Servers, cluster: str, partitions: int, rounds: int) -> int:
    """Write the samples of several intervals, starting at START_MS; loads are heavy-tailed and vary by a
    fifth."""
    time_ms, rate = F.lit(START_MS) + _number(partitions) * ROUND_MS, _rate(partitions)
    columns = {
        "time_ms": time_ms,
        "source": F.lit("cruise-control"),
        "bytes_in_per_second": rate,
        "size_bytes": _base(partitions) * _number(partitions) * (ROUND_MS / 1000),
        "growth_bytes": rate * (ROUND_MS / 1000),
        "growth_ms": F.lit(ROUND_MS),
        "inflow_bytes_per_second": rate,
    }
    return _write(session, made, PARTITION_METRICS, (cluster, partitions, rounds), columns)


def write_hours(session: SparkSession, made: Servers, cluster: str, partitions: int, hours: int) -> int:
    """Write hourly rollups, the last one for the hour of START_MS."""
    rate = _rate(partitions)
    columns = {
        "hour_ms": F.lit(START_MS) - _number(partitions) * HOUR_MS,
        "samples": F.lit(30),
        "mean_bytes_per_second": rate,
        "p95_bytes_per_second": rate * 1.1,
        "max_bytes_per_second": rate * 1.2,
        "sampled_bytes_per_second": rate,
        "size_bytes": rate * 3600,
        "growth_bytes": rate * 3600,
        "growth_ms": F.lit(HOUR_MS),
    }
    return _write(session, made, PARTITION_METRICS_HOURLY, (cluster, partitions, hours), columns)


def wait_for_rows(client: PinotClient, table: str, count: int) -> None:
    """Wait until Pinot returns at least `count` rows."""

    def shown() -> int:
        try:
            return int(client.ask(f"select count(*) from {table} limit 1").rows[0][0])
        except (AnalyticsError, NotFound):
            return 0

    wait_until(lambda: shown() >= count, 900, f"{count} rows of {table}")


def _write(
    session: SparkSession,
    made: Servers,
    table: Table,
    shape: tuple[str, int, int],
    columns: Mapping[str, Column],
) -> int:
    cluster, partitions, rounds = shape
    number = F.pmod(F.col("id"), F.lit(partitions))
    topic = F.format_string("topic-%06d", (number / PARTITIONS_OF_TOPIC).cast("long"))
    given = {
        "datacenter": F.lit("dc"),
        "cluster": F.lit(cluster),
        "topic": topic,
        "kafka_partition": F.pmod(number, F.lit(PARTITIONS_OF_TOPIC)),
        "broker": F.pmod(number, F.lit(3)) + 1,
        **columns,
    }
    typed = {"string": "string", "long": "bigint", "double": "double"}
    record = F.struct(
        *(given.get(c.name, F.lit(1)).cast(typed[c.type.value]).alias(c.name) for c in table.columns)
    )
    key = F.concat_ws("/", F.lit(cluster), topic, given["kafka_partition"].cast("string"))
    rows = session.range(partitions * rounds).select(
        key.cast("binary").alias("key"), to_avro(record, json.dumps(avro_schema(table))).alias("value")
    )
    (
        rows.write.format("kafka")
        .option("kafka.bootstrap.servers", made.broker.address)
        .option("kafka.compression.type", "lz4")
        .option("kafka.linger.ms", 50)
        .option("kafka.batch.size", 262_144)
        .option("topic", table.topic)
        .save()
    )
    return partitions * rounds


def _number(partitions: int) -> Column:
    """Return the number of the sampling interval."""
    return (F.col("id") / partitions).cast("long")


def _uniform(of: Column) -> Column:
    """Return a hash of the value between 0 and 1."""
    return (F.pmod(F.xxhash64(of), F.lit(1_000_000)) + 0.5) / 1_000_000


def _base(partitions: int) -> Column:
    """Return the mean rate of a partition, Pareto distributed.

    Most partitions have almost no load, and some a hundred thousand times that.
    """
    return F.pow(_uniform(F.pmod(F.col("id"), F.lit(partitions))), F.lit(-0.8)) * 20


def _rate(partitions: int) -> Column:
    return _base(partitions) * (_uniform(F.col("id")) * 0.4 + 0.8)
