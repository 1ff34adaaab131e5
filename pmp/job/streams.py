"""Streaming queries of the Spark job: one for each cluster, with its own checkpoint.

A query reads a cluster's two sample topics, and writes the merged topic and the dead letters. A query commits
offsets to its checkpoint after writing, so a killed job repeats a batch but loses none. In Pinot, a repeated
sample replaces the first sample, because both have the same key.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirror.errors import ConfigError
from mirror.settings import KafkaCluster
from pinot.deployment.java_kafka import client_properties
from pmp.job.reader import SampleReader
from pmp.job.transforms import ClusterLabels, bucketed, measured, observed, outgoing
from pmp.settings import PmpSettings, SampledCluster

_DAY_MS: Final = 86_400_000
_REQUEST_MS: Final = 15_000
"""Request timeout of consumers. The timeout is short, so that an unresponsive cluster does not occupy Spark's
task slots for long."""
_RECORDS_PER_TASK: Final = 250_000
"""Number of records that one Spark task reads.

Cruise Control writes many rounds of samples to one partition, so a backlog in one partition is divided among
several tasks.
"""


@dataclass(frozen=True)
class QueryStream:
    """All parameters of a cluster's streaming query. A query whose parameters are unchanged need not
    restart."""

    name: str
    source: KafkaCluster
    sampled: SampledCluster
    output: KafkaCluster
    trigger_seconds: float
    retention_ms: int


@dataclass(frozen=True)
class Configuration:
    """Configuration of the Spark job. `retention_days`: Pinot's retention of samples."""

    settings: PmpSettings
    clusters: Mapping[str, KafkaCluster]
    retention_days: int


def streams(configuration: Configuration) -> dict[str, QueryStream]:
    """Return the streaming query of each enabled cluster that this driver reads; the key is the cluster's
    name.

    Raises ConfigError for an alias that the configuration's `clusters` do not define.
    """
    settings, clusters = configuration.settings, configuration.clusters
    output = _known(clusters, settings.output_cluster)
    seconds, retention_ms = settings.job.trigger_interval_seconds, configuration.retention_days * _DAY_MS
    return {
        name: QueryStream(name, _known(clusters, name), sampled, output, seconds, retention_ms)
        for name, sampled in sorted(settings.clusters.items())
        if sampled.enabled and shard_of(name, settings.job.shards) == settings.job.shard
    }


def shard_of(cluster: str, shards: int) -> int:
    """Return the number of the driver (shard) that reads a cluster. It is the same in every process and
    version."""
    return zlib.crc32(cluster.encode()) % shards


def _known(clusters: Mapping[str, KafkaCluster], alias: str) -> KafkaCluster:
    if alias not in clusters:
        raise ConfigError(
            f"the section pmp refers to unknown cluster {alias}",
            advice=f"add the cluster to [clusters], or use one of {', '.join(sorted(clusters))}",
        )
    return clusters[alias]


def start_stream(session: SparkSession, settings: PmpSettings, stream: QueryStream) -> StreamingQuery:
    """Start a query that reads a cluster's samples, from its checkpoint or else from the oldest samples."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", stream.name)
    return write_stream(
        transformed(read_samples(session, settings, stream), settings, stream), settings, stream
    )


def write_stream(records: DataFrame, settings: PmpSettings, stream: QueryStream) -> StreamingQuery:
    """Start a query that writes output records to their topics."""
    writer = records.writeStream.format("kafka").queryName(f"samples-{stream.name}").outputMode("append")
    for key, value in _producer(stream.output).items():
        writer = writer.option(f"kafka.{key}", value)
    folder = settings.job.checkpoint_folder.rstrip("/")
    return (
        writer.option("checkpointLocation", f"{folder}/samples/{stream.name}")
        .trigger(processingTime=f"{int(stream.trigger_seconds * 1000)} milliseconds")
        .start()
    )


def read_samples(session: SparkSession, settings: PmpSettings, stream: QueryStream) -> DataFrame:
    """Return a stream of new records from both sample topics of a cluster. A missing topic is read as soon as
    it exists."""
    names = "|".join(re.escape(t) for t in (stream.sampled.samples_topic, stream.sampled.execution_topic))
    reader = session.readStream.format("kafka")
    for key, value in client_properties(stream.source).items():
        reader = reader.option(f"kafka.{key}", value)
    return (
        reader.option("kafka.bootstrap.servers", stream.source.bootstrap_servers)
        .option("subscribePattern", f"^({names})$")
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")
        .option("kafka.request.timeout.ms", _REQUEST_MS)
        .option("kafka.default.api.timeout.ms", 2 * _REQUEST_MS)
        .option("kafkaConsumer.pollTimeoutMs", _REQUEST_MS)
        .option("maxRecordsPerPartition", _RECORDS_PER_TASK)
        .option("maxOffsetsPerTrigger", settings.job.samples_per_trigger)
        .option("kafka.client.id", f"headrace-pmp-{stream.name}")
        .load()
    )


def transformed(records: DataFrame, settings: PmpSettings, stream: QueryStream) -> DataFrame:
    """Convert the raw records of sample topics to output records."""
    sampled = stream.sampled
    tolerance_ms = int(settings.job.clock_tolerance_seconds * 1000)
    reader = SampleReader(sampled.selection, tolerance_ms, stream.retention_ms)
    rows = measured(bucketed(records, sampled.execution_topic, settings.job.buckets), reader)
    return outgoing(
        observed(rows),
        ClusterLabels(stream.name, sampled.datacenter, sampled.sampled_by),
        {"metrics": settings.topic, "dead_letters": settings.dead_letter_topic},
        (sampled.samples_topic, sampled.execution_topic),
    )


def _producer(cluster: KafkaCluster) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "acks": "all",
        "enable.idempotence": "true",
        "compression.type": "lz4",
        "linger.ms": "20",
        "batch.size": "262144",
        "request.timeout.ms": str(_REQUEST_MS),
        "delivery.timeout.ms": str(3 * _REQUEST_MS),
        "max.block.ms": str(2 * _REQUEST_MS),
    } | client_properties(cluster)
