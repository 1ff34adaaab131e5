"""Cruise Control's partition metric sample: the layout of its bytes, and one sample as a value.

The format is that of `PartitionMetricSample` in linkedin/cruise-control, unchanged from 2.0.83 to
3.0.4: big-endian, a version byte, the leader's broker id, float64 metrics, time, partition, and the
topic name up to the end of the value. Version 0 has 4 metrics, version 1 has 9. Inside a sample
rates of bytes are KiB/s and sizes MiB; everywhere else in Headrace they are bytes/s and bytes.
The layout has a place for every metric, so none can be left out. One that was not measured is NaN, which
is what Cruise Control itself answers for a metric that a sample does not have.

`decoder.py` reads whole columns of samples; this module writes single ones.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.model.topics import MOST_PARTITIONS

SAMPLES_TOPIC: Final = "__KafkaCruiseControlPartitionMetricSamples"
EXECUTION_TOPIC: Final = "__KafkaCruiseControlPartitionMetricSamplesOnExecution"

BYTES_PER_KIB: Final = 1024.0
BYTES_PER_MIB: Final = 1048576.0

METRICS: Final[Mapping[int, tuple[str, ...]]] = {
    0: ("cpu", "size", "bytes_in", "bytes_out"),
    1: (
        "cpu",
        "size",
        "bytes_in",
        "bytes_out",
        "produce_requests",
        "fetch_requests",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
    ),
}
"""Metrics of a version, in the order of their bytes."""
NEEDED: Final = frozenset({"size", "bytes_in"})
"""Metrics without which a sample says nothing about load; each other one may be unknown."""

HEADER_BYTES: Final[Mapping[int, int]] = {
    version: 1 + 4 + 8 * len(metrics) + 8 + 4 for version, metrics in METRICS.items()
}
"""Bytes before the topic name: 49 in version 0, 89 in version 1."""

FASTEST: Final = 1e11
"""Bytes per second. No partition takes in so much: the network of its broker carries less."""

MOST_BYTES: Final = 1024
"""Read of a value, and kept of it as a dead letter. A sample has 338 bytes at most, a record may have MB."""

_LAYOUTS: Final = {version: struct.Struct(f">bi{len(metrics)}dqi") for version, metrics in METRICS.items()}


class Malformed(StrEnum):
    """Why a value is no sample. Of several reasons the first one in this order is given."""

    SHORT = "short"
    VERSION = "version"
    UTF8 = "utf8"
    TOPIC = "topic"
    PARTITION = "partition"
    BROKER = "broker"
    NUMBER = "number"
    TIME = "time"


EXPLANATIONS: Final[Mapping[Malformed, str]] = {
    Malformed.SHORT: "the value is shorter than its version's header (version 0: 49 bytes, version 1: 89)",
    Malformed.VERSION: "the version is neither 0 nor 1",
    Malformed.UTF8: "the topic name is not UTF-8",
    Malformed.TOPIC: "Kafka refuses the topic name: letters, digits and ._- are allowed, 1 to 249 of them",
    Malformed.PARTITION: f"the partition number is negative, or {MOST_PARTITIONS} or above",
    Malformed.BROKER: "the broker id is negative",
    Malformed.NUMBER: "a metric is negative or beyond any physical amount, or size or bytes in is no number",
    Malformed.TIME: "the sample time lies before 2010, after 2099, or ahead of the clock",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one partition by its leader. Rates per second, sizes in bytes.

    None means that the number is not known: not measured, or not carried by the version. `cpu` is a share
    of the broker's cores.
    """

    topic: str
    partition: int
    broker: int
    time_ms: int
    bytes_in_per_second: float
    size_bytes: float
    bytes_out_per_second: float | None = None
    messages_in_per_second: float | None = None
    replication_bytes_in_per_second: float | None = None
    replication_bytes_out_per_second: float | None = None
    cpu: float | None = None


def encode(sample: Sample, *, version: int = 1) -> bytes:
    """The bytes of a sample. Version 0 drops what it cannot carry; what is not known becomes NaN.

    Requests per second, which nobody here measures, are never known.
    Raises KeyError for another version and struct.error for numbers that do not fit.
    """
    metrics = [
        _or_nan(sample.cpu),
        sample.size_bytes / BYTES_PER_MIB,
        sample.bytes_in_per_second / BYTES_PER_KIB,
        _or_nan(sample.bytes_out_per_second) / BYTES_PER_KIB,
        math.nan,
        math.nan,
        _or_nan(sample.messages_in_per_second),
        _or_nan(sample.replication_bytes_in_per_second) / BYTES_PER_KIB,
        _or_nan(sample.replication_bytes_out_per_second) / BYTES_PER_KIB,
    ]
    kept = metrics[: len(METRICS[version])]
    header = _LAYOUTS[version].pack(version, sample.broker, *kept, sample.time_ms, sample.partition)
    return header + sample.topic.encode()


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else number
