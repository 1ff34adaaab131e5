"""What copying costs of a worker's CPU time, by what it has done, and what of that a full load would spare.

A worker that is not busy asks often and gets little: a part of a few kilobytes in an answer, a few small
batches in a part. What a part costs and what a written batch costs is then spread over few bytes. A worker
with a backlog gets parts and merged batches that are as large as they may be. So what is measured at a tenth
of a core says too little of what a core can copy, by up to three quarters.

Only the ratios of the prices count, as what a worker has measured of its CPU time is shared out by them.
Those of batches, parts, bytes and seconds were fitted to what a compiled worker spends on four kinds of
batches from idle to saturated, and `python -m bench placement_capacity` holds what follows from them against
what a worker then sustains. Interpreted, a part costs more, so that too little is left out. What is
decompressed and what is decoded is priced high: it is no part of what is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror.lane.counters import LaneCounters
from mirror.model.metrics import MirrorMetric

_PART_US: Final = 6.5
"""For a partition's part of an answer of the source."""
_BATCH_US: Final = 17.0
"""For a batch that is written: its request, answer, checkpoint and map."""
_SOURCE_BATCH_US: Final = 1.3
_BYTE_US: Final = 0.00034
_MERGED_BYTE_US: Final = 0.00025
"""For a byte as fetched that is reframed, beside `_BYTE_US`."""
_RECOMPRESSED_BYTE_US: Final = 0.008
_ENCODED_RECORD_US: Final = 5.0
_SECOND_US: Final = 11_500.0
"""For each second, whatever is copied: reports, checkpoints, timers."""
_FULL_PART_BYTES: Final = 256 * 1024
"""A part of a backlog has at least that."""
_FULL_BATCH_BYTES: Final = 160 * 1024
"""A merged batch of a backlog has at least that."""


class CopyCost(NamedTuple):
    """CPU time in microseconds at the prices of this module. `spare_us` of `cpu_us`: what the same bytes
    would not have cost in a backlog."""

    cpu_us: float
    spare_us: float


def cost_of(done: LaneCounters) -> CopyCost:
    """What a lane has cost. Linear in its counters but for the bound of `spare_us`, which is not negative."""
    parts = _PART_US * (done.fetched_parts - done.bytes_copied / _FULL_PART_BYTES)
    batches = _BATCH_US * (done.small_batches - done.small_bytes / _FULL_BATCH_BYTES)
    unmerged = max(done.small_bytes - done.merged_bytes, 0)
    cpu_us = (
        _PART_US * done.fetched_parts
        + _BATCH_US * done.batches
        + _SOURCE_BATCH_US * done.source_batches
        + _BYTE_US * done.bytes_copied
        + _MERGED_BYTE_US * done.merged_bytes
        + _RECOMPRESSED_BYTE_US * done.recompressed_bytes
        + _ENCODED_RECORD_US * done.encoded_records
    )
    spare_us = max(parts, 0.0) + max(batches, 0.0) - _MERGED_BYTE_US * unmerged
    return CopyCost(cpu_us, min(max(spare_us, 0.0), cpu_us))


def share_cpu(metrics: Sequence[MirrorMetric], cpu_ms: float, interval_ms: float) -> list[MirrorMetric]:
    """The CPU time of the worker over the interval, dealt out to lanes. The CPU times of `metrics` are what
    they cost at the prices of this module. The sums over lanes and tasks are exact, a lane's share is an
    estimate."""
    total = sum(metric.cpu_ms for metric in metrics)
    if not total:
        return list(metrics)
    each_second = _SECOND_US * max(interval_ms, 0.0) / 1e6
    real = cpu_ms / (total + each_second)
    found = []
    for metric in metrics:
        share = metric.cpu_ms / total
        spare = (metric.spare_cpu_ms + each_second * share) * real
        found.append(replace(metric, cpu_ms=cpu_ms * share, spare_cpu_ms=min(spare, cpu_ms * share)))
    return found
