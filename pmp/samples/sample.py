"""Cruise Control's partition metric sample: its byte layout, and a class for one sample.

The format is that of `PartitionMetricSample` in linkedin/cruise-control, unchanged from 2.0.83 to 3.0.4:
big-endian, a version byte, the leader's broker id, float64 metrics, time, partition, and the topic name up to
the end of the value. Version 0 has 4 metrics, version 1 has 9. Inside a sample, byte rates are KiB/s and
sizes MiB; everywhere else in Headrace they are bytes/s and bytes. The layout has a fixed position for every
metric, so none can be omitted. An unmeasured metric is NaN, as in Cruise Control.

`decoder.py` reads whole columns of samples; this module writes single samples.
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
"""Metrics in each version of the sample format, in byte order."""
NEEDED: Final = frozenset({"size", "bytes_in"})
"""Metrics that a sample must contain; the others may be unknown."""

HEADER_BYTES: Final[Mapping[int, int]] = {
    version: 1 + 4 + 8 * len(metrics) + 8 + 4 for version, metrics in METRICS.items()
}
"""Bytes before the topic name: 49 in version 0, 89 in version 1."""

FASTEST: Final = 1e11
"""Upper limit of a valid rate in bytes per second: more than the network bandwidth of any broker."""

MOST_BYTES: Final = 1024
"""Maximum number of bytes of a value that are read, and kept as a dead letter.

A sample has at most 338 bytes, but a record may have megabytes.
"""

_LAYOUTS: Final = {version: struct.Struct(f">bi{len(metrics)}dqi") for version, metrics in METRICS.items()}


class Malformed(StrEnum):
    """Reason why a value is not a valid sample. If several reasons apply, the first one in this list is
    used."""

    SHORT = "short"
    VERSION = "version"
    UTF8 = "utf8"
    TOPIC = "topic"
    PARTITION = "partition"
    BROKER = "broker"
    NUMBER = "number"
    TIME = "time"


EXPLANATIONS: Final[Mapping[Malformed, str]] = {
    Malformed.SHORT: "value shorter than the header of its version (version 0: 49 bytes, version 1: 89)",
    Malformed.VERSION: "unknown version (expected 0 or 1)",
    Malformed.UTF8: "topic name is not UTF-8",
    Malformed.TOPIC: "invalid topic name: Kafka allows 1 to 249 letters, digits and ._-",
    Malformed.PARTITION: f"partition number is negative or not below {MOST_PARTITIONS}",
    Malformed.BROKER: "negative broker id",
    Malformed.NUMBER: "negative or impossibly large metric, or size or bytes in is not a number",
    Malformed.TIME: "sample time is before 2010, after 2099 or in the future",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one partition by its leader. Rates per second, sizes in bytes. A metric that was not
    measured, or that the version lacks, is None. `cpu` is a share of the broker's cores."""

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
    """Encode a sample in Cruise Control's format.

    Metrics that version 0 does not have are omitted. Unknown metrics are written as NaN. Requests per second
    are always unknown: nothing in Headrace measures them. Raises KeyError for another version and
    struct.error for numbers out of range.
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
