"""What the mirror measures of itself, and what it tells of its placement.

These records are the contract between the mirror that writes them, Pinot that stores them and the
monitor that judges them: `rows.py` turns them into columns and an Avro schema. Field names avoid
words that SQL reserves. Histograms are counts per bucket, so that they add up over partitions,
tasks and time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

LATENCY_BOUNDS_MS: Final = tuple(float(2**power) for power in range(19))
"""Upper bounds of the latency buckets in ms: 1, 2, 4 … 262144; one more bucket holds the rest."""

LATENCY_BUCKETS: Final = len(LATENCY_BOUNDS_MS) + 1


@dataclass(frozen=True, slots=True)
class MirrorMetric:
    """Measurements of one partition over `interval_ms` up to `time_ms` (epoch milliseconds).

    `bytes_copied`: as fetched (compressed). `lag_records`: source end minus position, at `time_ms`.
    `lag_ms`: age of the oldest record that can be read at the source and is not acknowledged, 0 when there is
    none; None where that is not known, such as while the source does not answer. What an open transaction
    holds back cannot be read, and has no age.
    `latency_counts`: records per latency bucket; latency is destination acknowledgement minus the
    timestamp of the batch's newest record. `uncompressed_bytes`: of those batches whose size before
    compression is known without opening them. `wait_ms` … `produce_ms`: the latency of all batches, summed,
    by where they spent it: at the source, being received, in our queue, until the acknowledgement.
    `cpu_ms`: the lane's share of its worker's CPU time, by batches and bytes.
    """

    time_ms: int
    interval_ms: int
    instance: str
    task: str
    datastream: str
    source_cluster: str
    topic: str
    kafka_partition: int
    records_copied: int
    bytes_copied: int
    batches: int
    passthrough_batches: int
    lag_records: int
    lag_ms: int | None
    latency_counts: tuple[int, ...]
    uncompressed_bytes: int = 0
    wait_ms: float = 0.0
    fetch_ms: float = 0.0
    queue_ms: float = 0.0
    produce_ms: float = 0.0
    cpu_ms: float = 0.0


SUMMED: Final = (
    "records_copied",
    "bytes_copied",
    "uncompressed_bytes",
    "batches",
    "passthrough_batches",
    "wait_ms",
    "fetch_ms",
    "queue_ms",
    "produce_ms",
    "cpu_ms",
)
"""Fields of `MirrorMetric` that add up over partitions and time, beside `latency_counts`."""


@dataclass(frozen=True, slots=True)
class PlacementEvent:
    """One change of the plan, or of one partition in it (then `topic` is not empty).

    `kind`: plan, move, datastream, problem (a datastream is set aside, or is not any more),
    request (one that cannot be carried out), loads (those of a source cluster are stale or not to be
    had, or are known again), command (what a person did to a datastream). `event_key` is unique, so that a
    repeated publication does not count twice. `sentence` says what was decided and why.
    `bytes_per_second`: load of the partition that moves; None of other events, and where it is not known.
    """

    time_ms: int
    event_key: str
    kind: str
    plan_epoch: int
    instance: str
    datastream: str
    topic: str
    kafka_partition: int
    from_task: str
    to_task: str
    from_instance: str
    to_instance: str
    bytes_per_second: float | None
    sentence: str


def latency_bucket(milliseconds: float) -> int:
    """Index of the bucket that counts a latency; anything at or below the first bound is in 0."""
    if milliseconds <= 1:
        return 0
    return min((math.ceil(milliseconds) - 1).bit_length(), LATENCY_BUCKETS - 1)


def add_counts(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Bucket-wise sum of histograms."""
    total = [0] * LATENCY_BUCKETS
    for row in rows:
        for index, count in enumerate(row):
            total[index] += count
    return tuple(total)


def percentile_ms(counts: Sequence[int], percentile: float) -> float | None:
    """The latency in ms below which `percentile` percent of the records lie; None without records.

    Interpolates geometrically inside a bucket, so an answer is at most a factor 2 off; latencies
    beyond the last bound are given as that bound.
    """
    total = sum(counts)
    if total == 0:
        return None
    wanted = total * percentile / 100
    seen = 0
    for index, count in enumerate(counts):
        if count and seen + count >= wanted:
            if index >= len(LATENCY_BOUNDS_MS):
                return LATENCY_BOUNDS_MS[-1]
            upper = LATENCY_BOUNDS_MS[index]
            share = (wanted - seen) / count
            return share if index == 0 else upper / 2 * 2**share
        seen += count
    return LATENCY_BOUNDS_MS[-1]
