"""Counters of a lane since its last report, updated once per batch."""

from __future__ import annotations

from typing import Any, Final

from mirror.lane.out_batch import OutBatch, Path
from mirror.model.latency import LATENCY_BUCKETS, age_ms, latency_bucket
from mirror.model.metrics import SUMMED
from mirror.model.movement.append_times import AppendTimes
from mirror.model.movement.exemptions import CatchUpGrace
from mirror.protocol.batches.batch import HEADER_SIZE

MEASURED: Final = tuple(name for name in SUMMED if name not in ("cpu_ms", "spare_cpu_ms"))
"""Fields that `MirrorMetric` and `LaneCounters` share, without CPU time (measured per worker)."""

_SUMS: Final = (
    *MEASURED,
    "source_batches",
    "fetched_parts",
    "small_batches",
    "small_bytes",
    "merged_bytes",
    "recompressed_bytes",
    "encoded_records",
)
"""Names of the counters that are summed as numbers."""


class LaneCounters:
    """Counters of one lane: since its last measurement (`counters`), or until that measurement (`totals`).

    The constructor must assign every field in `MEASURED`. The latency has four parts, each a sum over batches
    of the mean time of their records: `wait_ms` at the source, `fetch_ms` from the source to the mirror,
    `queue_ms` in the mirror, `produce_ms` until acknowledged. The age of a record is the age of the newest
    record in its source batch. Timestamps outside the bounds of the append time are replaced by the nearest
    bound (`AppendTimes`).

    Counters for the cost of copying (`mirror/replication/reports/copy_costs.py`): `fetched_parts`: fetched
    partition responses with records. `small_batches`: batches that are small enough to be merged;
    `small_bytes`: fetched size of small batches. `merged_bytes`: fetched size of batches that were framed
    again without decoding; `recompressed_bytes`: uncompressed size of merged batches with compression.
    `encoded_records`: records that were decoded and encoded.
    """

    __slots__ = (*_SUMS, "batches_by_path", "latency")

    def __init__(self) -> None:
        self.records_copied = 0
        self.bytes_copied = 0
        self.uncompressed_bytes = 0
        self.batches = 0
        self.passthrough_batches = 0
        self.source_batches = 0
        self.fetched_parts = 0
        self.small_batches = 0
        self.small_bytes = 0
        self.merged_bytes = 0
        self.recompressed_bytes = 0
        self.encoded_records = 0
        self.batches_by_path = [0] * len(Path)
        self.latency: list[int] = []
        self.wait_ms = 0.0
        self.fetch_ms = 0.0
        self.queue_ms = 0.0
        self.produce_ms = 0.0

    def delivered(
        self,
        outgoing: OutBatch,
        now_ms: int,
        now: float,
        times: AppendTimes,
        grace: CatchUpGrace | None = None,
    ) -> None:
        """Count an acknowledged batch. `now_ms`: wall-clock time. `now`: monotonic seconds.

        The latency histogram omits records without a usable timestamp and records that do not count in the
        grace period of a backlog (`grace`). `times` corrects timestamps of wrong clocks.
        """
        self.records_copied += outgoing.count
        self.batches += 1
        self._count_work(outgoing)
        began_at, fetched_at = outgoing.received
        produce_ms = (now - outgoing.sent_at) * 1000
        queue_ms = (outgoing.sent_at - fetched_at) * 1000
        self.produce_ms += produce_ms
        self.queue_ms += queue_ms
        fetch_ms = (fetched_at - began_at) * 1000
        self.fetch_ms += fetch_ms
        total_ms = self._count_latency(outgoing, now_ms, now, times, grace)
        if total_ms is not None:
            self.wait_ms += max(total_ms - produce_ms - queue_ms - fetch_ms, 0.0)

    def _count_latency(
        self, outgoing: OutBatch, now_ms: int, now: float, times: AppendTimes, grace: CatchUpGrace | None
    ) -> float | None:
        """Count the latency of the batch's records. Return the mean in ms, or None if no record counts."""
        summed = known = 0
        since_ms, until_ms = appended = outgoing.appended
        origin = outgoing.made_from
        stamps = ((outgoing.max_timestamp, outgoing.count),) if origin is None else origin.by_source
        for stamp_ms, count in stamps:
            timestamp = stamp_ms
            if not since_ms <= stamp_ms <= until_ms or times.is_off:
                times.learn(stamp_ms, appended, now)
                timestamp = times.appended_ms(stamp_ms, appended)
            age = age_ms(now_ms, timestamp)
            if age is not None and (grace is None or grace.counts(timestamp)):
                if not self.latency:
                    self.latency = [0] * LATENCY_BUCKETS
                self.latency[latency_bucket(age)] += count
                summed += age * count
                known += count
        return summed / known if known else None

    def _count_work(self, outgoing: OutBatch) -> None:
        origin, path, size = outgoing.made_from, Path.PASSTHROUGH, len(outgoing.batch)
        if origin is None:
            self.passthrough_batches += 1
            self.source_batches += 1
            if not outgoing.is_compressed:
                self.uncompressed_bytes += size - HEADER_SIZE
        else:
            path, size = origin.path, origin.source_bytes
            self.source_batches += origin.source_batches
            self.uncompressed_bytes += origin.payload_bytes
            if path is Path.RECORDS:
                self.encoded_records += outgoing.count
            else:
                self.merged_bytes += size
                if outgoing.is_compressed:
                    self.recompressed_bytes += origin.payload_bytes
        self.bytes_copied += size
        self.batches_by_path[path] += 1
        if outgoing.is_small:
            self.small_batches += 1
            self.small_bytes += size

    def measured(self) -> dict[str, Any]:
        """Map the names in `MEASURED` to their counters."""
        return {name: getattr(self, name) for name in MEASURED}

    def add(self, other: LaneCounters) -> None:
        """Add the counters of `other` to these counters."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.batches_by_path = [
            mine + theirs for mine, theirs in zip(self.batches_by_path, other.batches_by_path, strict=True)
        ]
        if other.latency:
            mine = self.latency or [0] * LATENCY_BUCKETS
            self.latency = [own + added for own, added in zip(mine, other.latency, strict=True)]
