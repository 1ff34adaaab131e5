"""DataFrame transforms that convert raw Kafka records of sample topics to rows of the merged topic.

    records -> bucketed -> (decode, filter, growth: Python, one call per bucket and batch) -> outgoing

Cruise Control writes the samples of many rounds to one partition of its topic, so records are distributed by
the partition that they measure. All samples of a partition then reach the same bucket, whose memory is one
value of Spark's state store. This module has no session and no I/O; `streams.py` connects the transforms to
Kafka.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 the usual name in Spark code
from pyspark.sql.avro.functions import to_avro

from pinot.schemas import avro_schema
from pinot.tables import PARTITION_METRICS, UNKNOWN, Table
from pmp.job.job_metrics import OBSERVATION, TOO_OLD
from pmp.job.reader import ROWS, STATE, SampleReader
from pmp.samples.sample import EXPLANATIONS, HEADER_BYTES, MOST_BYTES, Malformed


@dataclass(frozen=True)
class ClusterLabels:
    """Columns with the same value in all rows of a cluster. `sampled_by` is the sampler of the cluster's
    usual samples topic."""

    cluster: str
    datacenter: str
    sampled_by: str


def bucketed(records: DataFrame, execution_topic: str, buckets: int) -> DataFrame:
    """Add to each Kafka record the bucket of the partition that it measures.

    `buckets`: number of parts of a cluster's state; each is one value of the state store. Values are
    truncated to the largest size of a sample, so that batches fit into memory and dead letters into their
    topic.
    """
    is_0 = F.substring("value", 1, 1) == F.lit(b"\x00")
    about = [F.substring("value", HEADER_BYTES[version] - 3, 1 << 20) for version in (0, 1)]
    return records.select(
        F.pmod(F.hash(F.when(is_0, about[0]).otherwise(about[1])), F.lit(buckets)).alias("bucket"),
        F.substring("value", 1, MOST_BYTES).alias("value"),
        F.length("value").cast("long").alias("origin_bytes"),
        (F.col("topic") == execution_topic).alias("execution"),
        F.col("partition").alias("origin_partition"),
        F.col("offset").alias("origin_offset"),
    )


def measured(records: DataFrame, reader: SampleReader) -> DataFrame:
    """Decode the records of each bucket to rows (`ROWS`): selected samples with their growth, and malformed
    values."""
    return records.groupBy("bucket").applyInPandasWithState(reader, ROWS, STATE, "append", "NoTimeout")


def observed(rows: DataFrame) -> DataFrame:
    """Add counters to rows. Spark reports the counts in the progress of the query."""
    malformed = [F.sum((F.col("reason") == str(r)).cast("long")).alias(str(r)) for r in Malformed]
    good = F.sum((F.col("reason").isNull() & F.col("too_old").isNull()).cast("long")).alias("good")
    too_old = F.sum("too_old").alias(TOO_OLD)
    return rows.observe(OBSERVATION, good, F.max("time_ms").alias("newest_ms"), too_old, *malformed)


def outgoing(
    rows: DataFrame, labels: ClusterLabels, topics: dict[str, str], sample_topics: tuple[str, str]
) -> DataFrame:
    """Convert rows to Kafka records for the merged topic and the dead-letter topic.

    `topics`: names of `metrics` and `dead_letters`; `sample_topics`: the normal and the execution topic.
    """
    good = F.col("reason").isNull()
    origin = F.when(F.col("execution"), sample_topics[1]).otherwise(sample_topics[0])
    coordinates = F.concat_ws("/", F.lit(labels.cluster), origin, "origin_partition", "origin_offset")
    identity = F.concat_ws("/", F.lit(labels.cluster), "topic", F.col("kafka_partition").cast("string"))
    return rows.where(F.col("too_old").isNull()).select(
        F.when(good, topics["metrics"]).otherwise(topics["dead_letters"]).alias("topic"),
        F.when(good, identity).otherwise(coordinates).cast("binary").alias("key"),
        F.when(good, to_avro(_record(labels, PARTITION_METRICS), json.dumps(avro_schema(PARTITION_METRICS))))
        .otherwise(F.col("value"))
        .alias("value"),
        F.when(~good, _headers(labels, origin)).alias("headers"),
    )


def _record(labels: ClusterLabels, table: Table) -> Column:
    source = F.when(F.col("execution"), f"{labels.sampled_by}-execution").otherwise(labels.sampled_by)
    given = {
        "datacenter": F.lit(labels.datacenter),
        "cluster": F.lit(labels.cluster),
        "source": source,
        "bytes_out_per_second": F.coalesce("bytes_out_per_second", F.lit(float(UNKNOWN))),
    }
    return F.struct(*(given.get(c.name, F.col(c.name)).alias(c.name) for c in table.columns))


def _headers(labels: ClusterLabels, origin: Column) -> Column:
    """Return record headers that contain the origin of a malformed value and the reason."""
    explained = F.create_map(*(F.lit(part) for pair in EXPLANATIONS.items() for part in map(str, pair)))
    entries = {
        "headrace.reason": F.col("reason"),
        "headrace.explanation": explained[F.col("reason")],
        "headrace.cluster": F.lit(labels.cluster),
        "headrace.topic": origin,
        "headrace.partition": F.col("origin_partition").cast("string"),
        "headrace.offset": F.col("origin_offset").cast("string"),
        "headrace.bytes": F.coalesce(F.col("origin_bytes").cast("string"), F.lit("0")),
    }
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
            for name, value in entries.items()
        )
    )
