"""Prometheus metrics of the Spark job, derived from Spark's progress reports. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from pmp.samples.sample import Malformed

OBSERVATION: Final = "headrace"
"""Name of the observed metrics in Spark's progress reports (see `transforms.observed`)."""
TOO_OLD: Final = "too_old"
"""Name of the count of samples dropped because of their age."""

_BY_CLUSTER: Final = ("cluster",)


class _Timed(Protocol):
    @property
    def timestamp(self) -> str: ...


_Report = TypeVar("_Report", bound=_Timed)


class JobMetrics:
    """Prometheus metrics of the Spark job. Pass each progress report of a cluster's query to `record`
    once."""

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
            "Malformed values in sample topics",
            ("cluster", "reason"),
            registry=self.registry,
        )
        self._too_old = self._counter(
            "samples_too_old", "Samples dropped because they are older than the retention of their table"
        )
        self._lag = self._gauge("lag_records", "Unread records of the sample topics")
        self._newest = self._gauge("newest_sample_timestamp_seconds", "Time of the latest sample read")
        self._batch = self._gauge("batch_duration_seconds", "Duration of the latest batch")
        self._last = self._gauge("last_batch_timestamp_seconds", "End of the latest batch with records")
        self._restarts = self._counter("restarts", "Restarts of queries after failures")
        self._executors: Gauge | None = None
        self._lost_executors: Counter | None = None

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"headrace_pmp_{name}", text, _BY_CLUSTER, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"headrace_pmp_{name}", text, _BY_CLUSTER, registry=self.registry)

    def watch_rollup(self, healthy: Callable[[], bool], rows: Callable[[], int]) -> None:
        """Add metrics of the rollup. Both functions are called at each scrape."""
        up = Gauge("headrace_pmp_rollup_up", "1 while hourly rollups succeed", registry=self.registry)
        up.set_function(lambda: float(healthy()))
        self.registry.register(_RollupRows(rows))

    def set_executors(self, active: int) -> None:
        """Set the number of executors of the application. The metric is not exported before the first call,
        because local mode has no executors."""
        if self._executors is None:
            self._executors = Gauge(
                "headrace_pmp_executors", "Executors of the Spark application", registry=self.registry
            )
            self._lost_executors = Counter(
                "headrace_pmp_lost_executors", "Executors that ended or disconnected", registry=self.registry
            )
        self._executors.set(active)

    def count_lost_executor(self) -> None:
        """Count an executor that ended or disconnected."""
        assert self._lost_executors is not None, "set_executors comes first"
        self._lost_executors.inc()

    def set_up(self, cluster: str, is_up: bool) -> None:
        """Set the metric that shows whether the cluster is being read."""
        self._up.labels(cluster).set(int(is_up))

    def count_restart(self, cluster: str) -> None:
        """Count a restart of the cluster's streaming query."""
        self._restarts.labels(cluster).inc()

    def forget(self, cluster: str) -> None:
        """Remove the gauges of a cluster that is no longer read."""
        for gauge in (self._up, self._lag, self._newest, self._batch, self._last):
            gauge.remove(cluster)

    def record(self, cluster: str, progress: Mapping[str, Any], now_ms: int) -> None:
        """Update the metrics from one progress report (Spark's JSON, parsed)."""
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
    """Exports the number of rolled-up rows as a Prometheus counter."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("headrace_pmp_rollup_rows", "Hourly rows written", value=self._rows())


def unseen(reports: Sequence[_Report], last: str) -> Sequence[_Report]:
    """Return the progress reports after the report of the time `last`; all if it is not among them.

    Spark orders the reports. Their times may go back, because they are of the wall clock.
    """
    times = [report.timestamp for report in reports]
    return reports[len(times) - times[::-1].index(last) :] if last in times else reports


def expired(progress: Mapping[str, Any]) -> int:
    """Return how many records of a batch retention deleted before the job read them.

    The sample topics are neither compacted nor written in transactions, so each offset had a record. The
    start of a recreated topic is below the last position, so its missing offsets do not count.
    """
    return sum(_expired(source) for source in progress.get("sources", ()))


def _expired(source: Mapping[str, Any]) -> int:
    begun, read = offsets(source.get("startOffset")), offsets(source.get("endOffset"))
    known = {partition: start for partition, start in begun.items() if read.get(partition, start) > start}
    covered = sum(read[partition] - start for partition, start in known.items())
    fresh = any(partition not in begun for partition in read)  # its start offset is not reported
    return 0 if fresh else max(0, covered - int(source.get("numInputRows") or 0))


def _behind(source: Mapping[str, Any]) -> int:
    """Return the number of records that the query must still read."""
    latest, read = offsets(source.get("latestOffset")), offsets(source.get("endOffset"))
    return sum(max(0, end - read.get(partition, 0)) for partition, end in latest.items())


def offsets(value: Any) -> dict[tuple[str, str], int]:
    """Map each (topic, partition) in a progress report to its offset. `value` may be JSON or null."""
    if isinstance(value, str):
        value = json.loads(value)
    return {
        (topic, number): int(offset)
        for topic, partitions in (value or {}).items()
        for number, offset in partitions.items()
    }
