"""What the job says of itself, for Prometheus. Pure bookkeeping over Spark's progress reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from pmp.samples.sample import Malformed

OBSERVATION: Final = "headrace"
"""Name of the observed metrics in Spark's progress (see `transforms.observed`)."""
TOO_OLD: Final = "too_old"
"""Name of the count of samples that are left out there."""

_BY_CLUSTER: Final = ("cluster",)


class JobMetrics:
    """One registry. `record` takes one progress report of a cluster's query, each report once."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._up = self._gauge("up", "1 while the cluster's samples are being read")
        self._read = self._counter("records_read", "Records read from sample topics")
        self._expired = self._counter(
            "expired_records", "Records of sample topics that retention removed before they were read"
        )
        self._kept = self._counter("samples_written", "Samples written to the merged topic")
        self._malformed = Counter(
            "headrace_pmp_malformed",
            "Values that are no samples",
            ("cluster", "reason"),
            registry=self.registry,
        )
        self._too_old = self._counter(
            "samples_too_old", "Samples left out because they are older than the retention of their table"
        )
        self._lag = self._gauge("lag_records", "Records of the sample topics that are not read yet")
        self._newest = self._gauge("newest_sample_timestamp_seconds", "Time of the newest sample read")
        self._batch = self._gauge("batch_duration_seconds", "Duration of the newest batch")
        self._last = self._gauge("last_batch_timestamp_seconds", "When the newest batch with records ended")
        self._restarts = self._counter("restarts", "How often a query had to be started again")

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"headrace_pmp_{name}", text, _BY_CLUSTER, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"headrace_pmp_{name}", text, _BY_CLUSTER, registry=self.registry)

    def watch_rollup(self, healthy: Callable[[], bool], rows: Callable[[], int]) -> None:
        """Show the rollup beside the job; both are asked whenever the metrics are."""
        up = Gauge("headrace_pmp_rollup_up", "1 while hours are rolled up", registry=self.registry)
        up.set_function(lambda: float(healthy()))
        self.registry.register(_RollupRows(rows))

    def set_up(self, cluster: str, is_up: bool) -> None:
        """Whether the cluster is read."""
        self._up.labels(cluster).set(int(is_up))

    def count_restart(self, cluster: str) -> None:
        """A query has ended by itself."""
        self._restarts.labels(cluster).inc()

    def forget(self, cluster: str) -> None:
        """The cluster is not read any more."""
        for gauge in (self._up, self._lag, self._newest, self._batch, self._last):
            gauge.remove(cluster)

    def record(self, cluster: str, progress: Mapping[str, Any], now_ms: int) -> None:
        """Take over one report (the JSON that Spark gives, parsed)."""
        records = int(progress.get("numInputRows") or 0)
        self._read.labels(cluster).inc(records)
        self._expired.labels(cluster).inc(expired(progress))
        self._lag.labels(cluster).set(sum(_behind(source) for source in progress.get("sources", ())))
        if records:
            self._batch.labels(cluster).set(progress["durationMs"].get("triggerExecution", 0) / 1000)
            self._last.labels(cluster).set(now_ms / 1000)
        observed = progress.get("observedMetrics", {}).get(OBSERVATION)
        if observed:
            self._kept.labels(cluster).inc(observed.get("good") or 0)
            self._too_old.labels(cluster).inc(observed.get(TOO_OLD) or 0)
            if observed.get("newest_ms"):
                self._newest.labels(cluster).set(observed["newest_ms"] / 1000)
            for reason in Malformed:
                if observed.get(reason):
                    self._malformed.labels(cluster, str(reason)).inc(observed[reason])


class _RollupRows(Collector):
    """A counter that is kept elsewhere."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("headrace_pmp_rollup_rows", "Hourly rows written", value=self._rows())


def expired(progress: Mapping[str, Any]) -> int:
    """Offsets that a batch covers and that had no record any more: retention was faster than the job.

    The sample topics are neither compacted nor written in transactions, so each offset had a record once.
    A topic that was created again begins below where it was read to; that is no loss of the new one's.
    """
    return sum(_expired(source) for source in progress.get("sources", ()))


def _expired(source: Mapping[str, Any]) -> int:
    begun, read = offsets(source.get("startOffset")), offsets(source.get("endOffset"))
    known = {partition: start for partition, start in begun.items() if read.get(partition, start) > start}
    covered = sum(read[partition] - start for partition, start in known.items())
    fresh = any(partition not in begun for partition in read)  # where such a partition began is not reported
    return 0 if fresh else max(0, covered - int(source.get("numInputRows") or 0))


def _behind(source: Mapping[str, Any]) -> int:
    """Records between what was read and the end of the topics."""
    latest, read = offsets(source.get("latestOffset")), offsets(source.get("endOffset"))
    return sum(max(0, end - read.get(partition, 0)) for partition, end in latest.items())


def offsets(value: Any) -> dict[tuple[str, str], int]:
    """Of a progress report, by topic and partition; it may be JSON, or null."""
    if isinstance(value, str):
        value = json.loads(value)
    return {
        (topic, number): int(offset)
        for topic, partitions in (value or {}).items()
        for number, offset in partitions.items()
    }
