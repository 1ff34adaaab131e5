"""Prometheus metrics of an instance, read from its status on each scrape.

Further collectors report the leader's sizing advice, the validity of certificates, continuous audits, and
consumer groups whose offsets are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from api.metrics.families import BY_CLUSTER, BY_DATASTREAM, counter, gauge
from api.metrics.partitions import (
    MetricSettings,
    lane_metrics,
    movement_metrics,
    partition_metrics,
    timestamp_offsets,
    uncopied_metrics,
)
from mirror.coordination.stores.problems import Problem
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.snapshot import InstanceSnapshot
from mirror.instance.workers.worker_health import WorkerCount
from mirror.jobs.audits.summary import TopicAudit
from mirror.jobs.groups.status import Statuses
from mirror.model.capacity.advice import Advice, PastNeed
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.latency import LATENCY_BOUNDS_MS, add_counts
from mirror.model.load import LoadSource
from mirror.model.metrics import LATENCY_STAGES, SUMMED
from mirror.ports import Clock
from mirror.tls import CertificateValidity
from mirror.worker.protocol import TaskSums

_FEW: Final = MetricSettings()


class InstanceCollector(Collector):
    """Prometheus collector of an instance: sums for each datastream and task, and few series for partitions.
    `settings` limit the number of partitions with their own series."""

    def __init__(
        self, snapshot: Callable[[], InstanceSnapshot], clock: Clock, settings: MetricSettings = _FEW
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._settings = settings
        self._version = version("headrace")

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this instance for one scrape."""
        status = self._snapshot()
        planes = [((self._version, plane), 1.0) for plane in sorted(status.data_planes)]
        yield gauge(  # two series only while workers of two builds are running
            "headrace_build_info",
            "always 1; version and data plane are labels",
            ("version", "data_plane"),
            planes,
        )
        yield GaugeMetricFamily(
            "headrace_leader", "1 if this instance is the leader", value=float(status.is_leading)
        )
        yield GaugeMetricFamily(
            "headrace_plan_epoch", "epoch of the plan that the instance follows", value=float(status.epoch)
        )
        conditions = [(part, float(condition.is_well)) for part, condition in status.conditions.items()]
        yield gauge(
            "headrace_part_healthy", "1 if the part of the instance is healthy", ("part",), conditions
        )
        yield from _worker_metrics(status.workers)
        yield counter(
            "headrace_dropped_records",
            "records for the metrics topic and the events topic that were dropped",
            ("kind",),
            [(kind, dropped.count) for kind, dropped in status.drops.items()],
        )
        yield from _cluster_metrics(status)
        yield from _problem_metrics(status.problems)
        yield from _load_metrics(status.loads.states)
        yield from _assessment_metrics(status.assessments)
        lanes, uncopied = tuple(status.lanes.values()), status.uncopied
        yield from lane_metrics(lanes)
        yield from movement_metrics(status.in_time, uncopied, self._clock.monotonic())
        yield from uncopied_metrics(uncopied, lanes, self._clock.now_ms())
        yield from partition_metrics(lanes, self._settings)
        yield timestamp_offsets(lanes, self._settings)
        sums = tuple(status.task_sums.values())
        yield from _task_metrics(sums)
        yield _latency(sums)


def _worker_metrics(count: WorkerCount) -> Iterator[Metric]:
    states = [("running", count.running), ("down", count.down)]
    yield gauge("headrace_workers", "worker processes by state", ("state",), states)
    yield CounterMetricFamily(
        "headrace_worker_deaths",
        "worker processes that crashed or failed to start; each is restarted",
        value=count.deaths,
    )


def _cluster_metrics(status: InstanceSnapshot) -> Iterator[Metric]:
    yield counter(
        "headrace_throttled_seconds",
        "time for which broker quotas of the cluster throttled workers, summed over workers",
        BY_CLUSTER,
        status.throttled_seconds.items(),
    )
    skews = status.clock_skews
    yield gauge(
        "headrace_clock_skew_seconds",
        "seconds by which the broker clock with the largest skew is ahead of this host, from append times;"
        " no sample while unknown",
        BY_CLUSTER,
        [(cluster, skew.ahead_ms / 1000) for cluster, skew in skews.items()],
    )
    yield gauge(
        "headrace_clock_skew_bound_seconds",
        "maximum error of headrace_clock_skew_seconds, in either direction",
        BY_CLUSTER,
        [(cluster, skew.bound_ms / 1000) for cluster, skew in skews.items()],
    )
    yield gauge(
        "headrace_illegal_topics",
        "ignored topics of the cluster with names that Kafka does not allow; no sample if there are none;"
        " reported by the leader",
        BY_CLUSTER,
        [(cluster, count or None) for cluster, count in status.illegal_topics.items()],
    )


def _problem_metrics(problems: Mapping[DatastreamName, Problem]) -> Iterator[Metric]:
    yield gauge(
        "headrace_datastream_problem",
        "1 if a datastream is excluded from planning; reported by the leader",
        BY_DATASTREAM,
        [(name, 1.0) for name, problem in problems.items() if problem.sets_aside],
    )
    yield gauge(
        "headrace_datastream_remark",
        "1 if a datastream matches no topic or a quota throttles it; reported by the leader",
        BY_DATASTREAM,
        [(name, 1.0) for name, problem in problems.items() if not problem.sets_aside],
    )


def _load_metrics(loads: Mapping[LoadSource, LoadStatus]) -> Iterator[Metric]:
    """Yield metrics about the state of the loads, and the time of the latest measurement if known."""
    yield gauge(
        "headrace_loads",
        "1 for the state of a source cluster's loads, or of its loads from a provider chosen by"
        " datastreams (`source by provider`); reported by the leader",
        ("source", "state"),
        [((str(source), status.state.value), 1.0) for source, status in loads.items()],
    )
    measured_ms = {str(source): status.measured_at_ms for source, status in loads.items()}
    yield gauge(
        "headrace_loads_measured_timestamp_seconds",
        "time of the latest measurement of the source's loads; reported by the leader",
        ("source",),
        [(source, None if at_ms is None else at_ms / 1000) for source, at_ms in measured_ms.items()],
    )


_OF_ASSESSMENTS: Final[Mapping[str, tuple[str, Callable[[Assessment], int]]]] = {
    "headrace_tasks": ("tasks in the plan", lambda found: found.tasks),
    "headrace_tasks_required": ("tasks required by capacity", lambda found: found.required_tasks),
    "headrace_tasks_lower_bound": (
        "lower bound on the number of tasks of any feasible plan",
        lambda found: found.task_lower_bound,
    ),
    "headrace_tasks_overloaded": (
        "tasks whose load exceeds the usable capacity",
        lambda found: found.overloaded,
    ),
    "headrace_offending_partitions": (
        "partitions whose load alone exceeds the usable capacity of a task",
        lambda found: found.offending,
    ),
    "headrace_partitions_of_unknown_load": (
        "partitions planned with the default load",
        lambda found: found.unknown,
    ),
    "headrace_partitions_behind": (
        "partitions that were late when planned, so their load is a lower bound",
        lambda found: found.lower_bounds,
    ),
    "headrace_moves_left": (
        "moves postponed because of the move budget of a plan",
        lambda found: found.moves_left,
    ),
    "headrace_searches_cut_short": (
        "searches of the planner that reached their time limit",
        lambda found: found.cut_short,
    ),
}
"""Help text and value by metric name."""


def _assessment_metrics(assessments: Mapping[GroupName, Assessment]) -> Iterator[Metric]:
    for name, (text, value) in _OF_ASSESSMENTS.items():
        samples = [(group, value(assessment)) for group, assessment in assessments.items()]
        yield gauge(name, f"{text}; reported by the leader", BY_DATASTREAM, samples)


def _task_metrics(sums: tuple[TaskSums, ...]) -> Iterator[Metric]:
    """Yield the counters in `SUMMED`, with one series for each task.

    If a task moves, the counters of its new instance continue.
    """
    families: dict[str, CounterMetricFamily] = {}
    values = [(task, task.by_name()) for task in sums]
    for field, series in SUMMED.items():
        if series.name not in families:
            families[series.name] = CounterMetricFamily(
                series.name, series.text, labels=["datastream", "task", *series.label]
            )
        for task, named in values:
            number = named[field] - (named[series.less] if series.less else 0)
            families[series.name].add_metric(
                [task.group, task.task, *series.label.values()], number / series.divisor
            )
    yield from families.values()


def _latency(sums: tuple[TaskSums, ...]) -> Metric:
    """Return the metric with the latency histogram of each datastream.

    Percentiles cover all records of the datastream that this instance copies. The sum of the histogram is the
    sum of batch latencies, because the sum of record latencies is not measured.
    """
    family = HistogramMetricFamily(
        "headrace_latency_seconds",
        "from a record's timestamp, or its arrival at the source if the timestamp is wrong, to its"
        " acknowledgement",
        labels=["datastream"],
    )
    for group in sorted({task.group for task in sums}):
        mine = [task for task in sums if task.group == group]
        counts = add_counts(task.latency_counts for task in mine)
        bounds = [*(str(bound / 1000) for bound in LATENCY_BOUNDS_MS), "+Inf"]
        named = [task.by_name() for task in mine]
        total = sum(counters[name] / SUMMED[name].divisor for counters in named for name in LATENCY_STAGES)
        family.add_metric([group], list(zip(bounds, accumulate(counts), strict=True)), sum_value=total)
    return family


_HOUR_SECONDS: Final = 3_600


class AdviceCollector(Collector):
    """Prometheus collector of the current sizing advice. Unknown values have no series. `current`: function
    that returns the advice of this instance, None if the instance does not lead."""

    def __init__(self, current: Callable[[], Advice | None]) -> None:
        self._current = current

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the sizing advice for one scrape."""
        found = self._current()
        peak = found.peak if found is not None else None
        values: dict[str, tuple[str, float | None]] = {
            **{name: (text, getattr(found, field, None)) for name, (text, field) in _OF_ADVICE.items()},
            "peak_required_tasks": (
                "tasks needed in the peak hour of the forecast, at its upper bound",
                peak.most_tasks if peak else None,
            ),
            **_past("day", found.past_day if found else None),
            **_past("week", found.past_week if found else None),
            "advice_timestamp_seconds": (
                "time at which the advice was computed",
                found.computed_ms / 1000 if found else None,
            ),
        }
        for name, (text, value) in values.items():
            yield gauge(f"headrace_{name}", f"{text}; reported by the leader", (), [((), value)])


_OF_ADVICE: Final = {
    "required_tasks": ("tasks needed by the service now", "required_tasks"),
    "required_instances": ("instances needed by the service now", "required_instances"),
    "required_tasks_at_least": ("tasks needed now by the datastreams with a known need", "tasks_at_least"),
    "required_instances_at_least": (
        "instances needed now by the datastreams with a known need",
        "instances_at_least",
    ),
    "peak_required_instances": ("instances needed in the peak hour of the forecast", "peak_instances"),
    "staying_instances": ("live instances that are not leaving", "instances"),
}
"""Help text and field of `Advice` by metric name."""
_OF_PAST_NEED: Final = {
    "known_seconds": ("seconds of the last {} with known loads of all datastreams", "hours"),
    "task_seconds": (
        "task-seconds with the current number of tasks, in the known hours of the last {}",
        "task_hours",
    ),
    "peak_task_seconds": (
        "task-seconds with the tasks of the busiest hour, in the known hours of the last {}",
        "peak_task_hours",
    ),
    "needed_task_seconds": (
        "task-seconds with the tasks that each hour needed, in the known hours of the last {}",
        "needed_task_hours",
    ),
}
"""Help text and field of `PastNeed` in hours, by metric name."""


def _past(span: str, need: PastNeed | None) -> dict[str, tuple[str, float | None]]:
    """Map each metric about the tasks needed in the last `span` to its help text and value."""
    return {
        f"past_{span}_{name}": (
            text.format(span),
            getattr(need, field) * _HOUR_SECONDS if need is not None else None,
        )
        for name, (text, field) in _OF_PAST_NEED.items()
    }


class CertificateCollector(Collector):
    """Prometheus collector of the remaining validity of certificate files.

    The files are read at each scrape, because they may be replaced at any time.
    """

    def __init__(self, certificates: Callable[[], Iterable[CertificateValidity]], clock: Clock) -> None:
        self._certificates = certificates
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of certificate files for one scrape."""
        now_ms = self._clock.now_ms()
        yield gauge(
            "headrace_certificate_expires_in_seconds",
            "seconds until a certificate file expires, negative once expired; no sample if unreadable",
            ("setting",),
            [(certificate.setting, certificate.seconds_left(now_ms)) for certificate in self._certificates()],
        )


class AuditCollector(Collector):
    """Prometheus collector of continuous audits. `current`: returns the audits of topics on this instance."""

    def __init__(self, current: Callable[[], Sequence[TopicAudit]], clock: Clock) -> None:
        self._current = current
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of continuous audits for one scrape."""
        labels, now_ms = ("datastream", "topic"), self._clock.now_ms()
        audits = [((audit.datastream, audit.topic), audit) for audit in self._current()]
        yield gauge(
            "headrace_audit_complete_through_age_seconds",
            "age of the time up to which all records are at the destination, lateness included",
            labels,
            [(place, _age(audit.through_ms, now_ms)) for place, audit in audits],
        )
        faults = [(place, sorted(audit.fault_records.items())) for place, audit in audits]
        yield gauge(
            "headrace_audit_fault_records",
            "audited records that differ without an explanation, by verdict",
            (*labels, "verdict"),
            [((*place, verdict), records) for place, found in faults for verdict, records in found],
        )
        yield gauge(
            "headrace_audit_waiting_offsets",
            "copied source offsets that are not audited yet",
            labels,
            [(place, audit.waiting) for place, audit in audits],
        )


class GroupCollector(Collector):
    """Prometheus collector of the consumer groups whose offsets are copied.

    `current`: statuses known to this instance; empty if this instance does not lead.
    """

    def __init__(self, current: Callable[[], Statuses], clock: Clock) -> None:
        self._current = current
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of consumer groups for one scrape."""
        found, now_ms = sorted(self._current().items()), self._clock.now_ms()
        yield gauge(
            "headrace_consumer_groups",
            "consumer groups with positions in topics of the datastream; reported by the leader",
            BY_DATASTREAM,
            [(name, status.groups) for name, status in found],
        )
        reasons = [(name, sorted(status.reasons.items())) for name, status in found]
        yield gauge(
            "headrace_consumer_groups_hindered",
            "consumer groups that do not follow to the destination, by reason; reported by the leader",
            ("datastream", "reason"),
            [((name, reason), count) for name, counts in reasons for reason, count in counts],
        )
        yield gauge(
            "headrace_consumer_groups_age_seconds",
            "time since the last synchronisation of all groups; reported by the leader",
            BY_DATASTREAM,
            [(name, _age(status.round_ms, now_ms)) for name, status in found],
        )


def _age(at_ms: int | None, now_ms: int) -> float | None:
    """Return the seconds since a time; None if the time is unknown."""
    return None if at_ms is None else max(now_ms - at_ms, 0) / 1000
