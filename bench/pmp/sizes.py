"""Size of a partition in the job's state, and of one sample in each topic, for several lengths of topic
names."""

from __future__ import annotations

import io

import fastavro
import numpy as np
import pyarrow as pa

from mirror.model.rows import row_of
from pinot.schemas import avro_schema
from pinot.tables import PARTITION_METRICS, LogGrowth, PartitionMetric, SampledPartition
from pmp.job.growth import Memory
from pmp.samples.sample import Sample, encode

_PARTITIONS = 10_000
_NAMES = ("orders", "topic-000001", "team.service.orders.of.customers.europe")


def main() -> None:
    """Print the sizes for topic names of several lengths."""
    print(f"bytes, before compression; state of {_PARTITIONS:,} partitions in one bucket")
    print("  topic name              state a partition   sample    row    key of the row")
    for topic in _NAMES:
        sample, row, key = _of_one(topic)
        print(f"  {len(topic):3} characters {_state(topic):26.1f} {sample:8} {row:6} {key:17}")


def _state(topic: str) -> float:
    """Return the state bytes per partition of the topic, for partitions with three digits."""
    names = [f"{100 + number % 900}/{topic}".encode() for number in range(_PARTITIONS)]
    integers, floats = np.zeros(_PARTITIONS, np.int64), np.zeros(_PARTITIONS)
    memory = Memory(pa.array(names, pa.binary()), integers, integers, floats, floats)
    return len(memory.to_bytes()) / _PARTITIONS


def _of_one(topic: str) -> tuple[int, int, int]:
    """Return the bytes of a sample of Cruise Control, of its row in the merged topic, and of its key."""
    sample = Sample(topic, 100, 1, 1_795_000_000_000, 1e6, 1e9, 2e6, 1e3)
    metric = PartitionMetric(
        time_ms=sample.time_ms,
        partition=SampledPartition("one", "east", topic, sample.partition, sample.broker),
        source="cruise-control",
        bytes_in_per_second=1e6,
        bytes_out_per_second=2e6,
        messages_in_per_second=1e3,
        size_bytes=1e9,
        growth=LogGrowth(1e8, 120_000),
        inflow_bytes_per_second=1e6,
        shrunk=0,
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro_schema(PARTITION_METRICS)), row_of(metric))
    key = f"{metric.partition.cluster}/{topic}/{sample.partition}"
    return len(encode(sample)), len(buffer.getvalue()), len(key)
