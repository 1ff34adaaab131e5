"""Computes samples from two successive measurements of a cluster: the true rates of each partition. Pure.

Message rates come from end offsets, byte rates from the size of the leader's log; both are exact for each
partition, so nothing is estimated. If a log shrank between two measurements (retention, compaction) or its
leader moved, bytes are computed as the new messages times the last known bytes per message of the partition.
The Kafka protocol does not report consumer fetches and broker CPU, so these metrics are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.model.topics import TopicPartition
from pmp.samples.sample import Sample


@dataclass(frozen=True)
class LogSnapshot:
    """Measurement of a cluster: the leaders, end offsets and log sizes of its partitions. Offsets and sizes
    are read a few requests apart.

    `*_seconds` are monotonic; `time_ms` is the wall-clock time of the sizes. Partitions without a leader are
    in none of the three mappings.
    """

    time_ms: int
    offsets_seconds: float
    sizes_seconds: float
    leaders: Mapping[TopicPartition, int]
    end_offsets: Mapping[TopicPartition, int]
    size_bytes: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class SampledRound:
    """Samples computed from a measurement, and the state for the next one."""

    samples: tuple[Sample, ...]
    bytes_per_message: Mapping[TopicPartition, float] = field(default_factory=dict)


def sample(
    before: LogSnapshot, now: LogSnapshot, bytes_per_message: Mapping[TopicPartition, float]
) -> SampledRound:
    """Return one sample for each partition that is in both measurements.

    A partition is skipped once if its end offset went back (topic recreated, unclean election). A partition
    is also skipped if messages arrived but neither its log growth nor earlier messages give their size.
    """
    samples: list[Sample] = []
    sizes: dict[TopicPartition, float] = {}
    offsets_seconds = now.offsets_seconds - before.offsets_seconds
    sizes_seconds = now.sizes_seconds - before.sizes_seconds
    for partition, broker in now.leaders.items():
        ends = before.end_offsets.get(partition), now.end_offsets.get(partition)
        size = now.size_bytes.get(partition)
        if ends[0] is None or ends[1] is None or size is None or ends[1] < ends[0]:
            continue
        messages = ends[1] - ends[0]
        grown = _growth(before, now, partition)
        known = bytes_per_message.get(partition)
        if grown is not None and messages > 0 and grown > 0:
            known = grown / messages
        if known is not None:
            sizes[partition] = known
        if grown is not None:
            bytes_per_second = grown / sizes_seconds
        elif known is not None or messages == 0:
            bytes_per_second = messages * (known or 0.0) / offsets_seconds
        else:
            continue
        samples.append(
            Sample(
                topic=partition.topic,
                partition=partition.partition,
                broker=broker,
                time_ms=now.time_ms,
                bytes_in_per_second=bytes_per_second,
                size_bytes=float(size),
                messages_in_per_second=messages / offsets_seconds,
            )
        )
    return SampledRound(tuple(samples), sizes)


def _growth(before: LogSnapshot, now: LogSnapshot, partition: TopicPartition) -> int | None:
    """Return the growth of the leader's log in bytes; None if it is unknown.

    A log that shrank does not show how much was written.
    """
    if before.leaders.get(partition) != now.leaders[partition] or partition not in before.size_bytes:
        return None
    grown = now.size_bytes[partition] - before.size_bytes[partition]
    return grown if grown >= 0 else None
