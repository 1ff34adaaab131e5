"""Estimates the CPU time of each kind of copying work, and the part that a saturated worker saves.

An idle worker fetches often, and each response has only a few kilobytes per partition, in small batches. The
fixed costs per partition and per batch are then spread over few bytes. A worker with a backlog gets large
responses, and writes merged batches of maximum size. Without this module, a measurement at a tenth of a core
would understate the capacity of a core by up to three quarters.

Each kind of work has a price. Only the ratios of prices matter, because the measured CPU time of a worker is
divided by them. Prices of batches, partitions, bytes and seconds were fitted to four kinds of batches on a
compiled worker, from idle to saturated. `python -m bench placement_capacity` compares the results with the
throughput of a saturated worker. On an interpreted worker, a partition costs more, so the savings are
understated. Decompression and decoding have high prices, and never count as savings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mirror.lane.counters import LaneCounters
from mirror.model.metrics import MirrorMetric

_PART_US: Final = 6.5
"""Price in µs of each partition in a fetch response."""
_BATCH_US: Final = 17.0
"""Price in µs of each written batch: its request, response, checkpoint and offset map."""
_SOURCE_BATCH_US: Final = 1.3
_BYTE_US: Final = 0.00034
_MERGED_BYTE_US: Final = 0.00025
"""Price in µs of each fetched byte of a merged batch, in addition to `_BYTE_US`."""
_RECOMPRESSED_BYTE_US: Final = 0.008
_ENCODED_RECORD_US: Final = 5.0
_SECOND_US: Final = 11_500.0
"""Price in µs of each second, regardless of load: reports, checkpoints, timers."""
_FULL_PART_BYTES: Final = 256 * 1024
"""Minimum bytes of a partition in a response with a backlog."""
_FULL_BATCH_BYTES: Final = 160 * 1024
"""Minimum bytes of a merged batch with a backlog."""


class CopyCost(NamedTuple):
    """Estimated CPU time in microseconds. `spare_us`: part of `cpu_us` that a worker with a backlog would
    save on the same bytes."""

    cpu_us: float
    spare_us: float


def cost_of(done: LaneCounters) -> CopyCost:
    """Estimate the CPU time of a lane from its counters. Linear in the counters, except for the bounds of
    `spare_us`."""
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
    """Distribute the measured CPU time of the worker over its lanes, in proportion to the estimates in
    `metrics`. Sums over lanes and tasks are exact; the share of a lane is an estimate."""
    total = sum(metric.cpu_ms for metric in metrics)
    if not total:
        return list(metrics)
    each_second = _SECOND_US * max(interval_ms, 0.0) / 1e6
    found = []
    for metric in metrics:
        share = metric.cpu_ms / total
        spare = (metric.spare_cpu_ms + each_second * share) / (total + each_second)
        found.append(replace(metric, cpu_ms=cpu_ms * share, spare_cpu_ms=cpu_ms * min(spare, share)))
    return found
