"""Prometheus metrics of an instance, read from its status on each scrape.

Further collectors report the leader's sizing advice and the validity of certificates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from api.metrics.movement import movement_metrics, uncopied_metrics
from api.metrics.partitions import MetricSettings, partition_metrics, timestamp_offsets
from mirror.coordination.stores.problems import Problem
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.snapshot import InstanceSnapshot
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.instance.workers.worker_health import WorkerCount
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.latency import LATENCY_BOUNDS_MS, add_counts
from mirror.model.load import LoadSource
from mirror.model.metrics import LATENCY_STAGES, SUMMED, Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.sizing.advice import Advice, PastNeed
from mirror.ports import Clock
from mirror.tls import CertificateValidity
from mirror.worker.protocol import TaskSums

_FEW: Final = MetricSettings()


class InstanceCollector(Collector):
    """Sums by datastream and task.

    A scrape therefore does not grow with the number of partitions. `settings` limit the number of partitions
    that have their own series.
    """

    def __init__(
        self, snapshot: Callable[[], InstanceSnapshot], clock: Clock, settings: MetricSettings = _FEW
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._settings = settings
        self._version = version("headrace")

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because the metrics are known only at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        status = self._snapshot()
        yield _build_info(self._version, status.data_planes)
        yield _gauge("headrace_leader", "1 if this instance is the leader", float(status.is_leading))
        yield _gauge(
            "headrace_plan_epoch", "epoch of the plan that the instance follows", float(status.epoch)
        )
        parts = GaugeMetricFamily(
            "headrace_part_healthy", "1 if the part of the instance is healthy", labels=["part"]
        )
        for part, condition in status.conditions.items():
            parts.add_metric([part], float(condition.is_well))
        yield parts
        yield from _worker_metrics(status.workers)
        yield _drops(status.drops)
        yield _throttled(status.throttled_seconds)
        yield from _clocks(status.clock_skews)
        yield _illegal_topics(status.illegal_topics)
        yield from _problem_metrics(status.problems)
        yield from _load_metrics(status.loads.states)
        yield from _assessment_metrics(status.assessments)
        lanes, uncopied = tuple(status.lanes.values()), status.uncopied
        yield from _lane_metrics(lanes)
        yield from movement_metrics(status.in_time, uncopied, self._clock.monotonic())
        yield from uncopied_metrics(uncopied, lanes, self._clock.now_ms())
        yield from partition_metrics(lanes, self._settings)
        yield timestamp_offsets(lanes, self._settings)
        sums = tuple(status.task_sums.values())
        yield from _task_metrics(sums)
        yield _latency(sums)


def _worker_metrics(count: WorkerCount) -> Iterator[Metric]:
    processes = GaugeMetricFamily("headrace_workers", "worker processes by state", labels=["state"])
    processes.add_metric(["running"], count.running)
    processes.add_metric(["down"], count.down)
    yield processes
    yield CounterMetricFamily(
        "headrace_worker_deaths",
        "worker processes that crashed or failed to start; each is restarted",
        value=count.deaths,
    )


def _problem_metrics(problems: Mapping[DatastreamName, Problem]) -> Iterator[Metric]:
    aside = GaugeMetricFamily(
        "headrace_datastream_problem",
        "1 if a datastream is excluded from planning; reported by the leader",
        labels=["datastream"],
    )
    remarks = GaugeMetricFamily(
        "headrace_datastream_remark",
        "1 if a datastream matches no topic or a quota throttles it; reported by the leader",
        labels=["datastream"],
    )
    for name, problem in problems.items():
        (aside if problem.sets_aside else remarks).add_metric([name], 1.0)
    yield aside
    yield remarks


def _load_metrics(loads: Mapping[LoadSource, LoadStatus]) -> Iterator[Metric]:
    """Yield the state of the loads, and the time of the latest measurement if known."""
    states = GaugeMetricFamily(
        "headrace_loads",
        "1 for the state of a source cluster's loads, or of its loads from a provider chosen by"
        " datastreams (`source by provider`); reported by the leader",
        labels=["source", "state"],
    )
    newest = GaugeMetricFamily(
        "headrace_loads_measured_timestamp_seconds",
        "time of the latest measurement of the source's loads; reported by the leader",
        labels=["source"],
    )
    for source, status in loads.items():
        states.add_metric([str(source), status.state.value], 1.0)
        if status.measured_at_ms is not None:
            newest.add_metric([str(source)], status.measured_at_ms / 1000)
    yield states
    yield newest


def _assessment_metrics(assessments: Mapping[GroupName, Assessment]) -> Iterator[Metric]:
    numbers: tuple[tuple[str, str, Callable[[Assessment], int]], ...] = (
        ("headrace_tasks", "tasks in the plan", lambda found: found.tasks),
        ("headrace_tasks_required", "tasks required by capacity", lambda found: found.required_tasks),
        (
            "headrace_tasks_lower_bound",
            "lower bound on the number of tasks of any feasible plan",
            lambda found: found.task_lower_bound,
        ),
        (
            "headrace_tasks_overloaded",
            "tasks whose load exceeds the usable capacity",
            lambda found: found.overloaded,
        ),
        (
            "headrace_offending_partitions",
            "partitions whose load alone exceeds the usable capacity of a task",
            lambda found: found.offending,
        ),
        (
            "headrace_partitions_of_unknown_load",
            "partitions planned with the default load",
            lambda found: found.unknown,
        ),
        (
            "headrace_partitions_behind",
            "partitions that were late when planned, so their load is a lower bound",
            lambda found: found.lower_bounds,
        ),
        (
            "headrace_moves_left",
            "moves postponed because of the move budget of a plan",
            lambda found: found.moves_left,
        ),
        (
            "headrace_searches_cut_short",
            "searches of the planner that reached their time limit",
            lambda found: found.cut_short,
        ),
    )
    for name, text, value in numbers:
        family = GaugeMetricFamily(name, f"{text}; reported by the leader", labels=["datastream"])
        for group, assessment in assessments.items():
            family.add_metric([group], value(assessment))
        yield family


def _build_info(release: str, data_planes: Collection[str]) -> Metric:
    """Return one series per data plane of the workers.

    There are two series only while workers of two builds are running.
    """
    family = GaugeMetricFamily(
        "headrace_build_info", "always 1; version and data plane are labels", labels=["version", "data_plane"]
    )
    for plane in sorted(data_planes):
        family.add_metric([release, plane], 1.0)
    return family


def _drops(drops: Mapping[str, Drops]) -> Metric:
    family = CounterMetricFamily(
        "headrace_dropped_records",
        "records for the metrics topic and the events topic that were dropped",
        labels=["kind"],
    )
    for kind, dropped in drops.items():
        family.add_metric([kind], dropped.count)
    return family


def _throttled(seconds: Mapping[ClusterRef, float]) -> Metric:
    family = CounterMetricFamily(
        "headrace_throttled_seconds",
        "time for which broker quotas of the cluster throttled workers, summed over workers",
        labels=["cluster"],
    )
    for cluster, spent in seconds.items():
        family.add_metric([cluster], spent)
    return family


def _clocks(skews: Mapping[ClusterRef, ClockSkew]) -> Iterator[Metric]:
    skew = GaugeMetricFamily(
        "headrace_clock_skew_seconds",
        "seconds by which the broker clock with the largest skew is ahead of this host, from append times;"
        " no sample while unknown",
        labels=["cluster"],
    )
    bound = GaugeMetricFamily(
        "headrace_clock_skew_bound_seconds",
        "maximum error of headrace_clock_skew_seconds, in either direction",
        labels=["cluster"],
    )
    for cluster, clock_skew in skews.items():
        skew.add_metric([cluster], clock_skew.ahead_ms / 1000)
        bound.add_metric([cluster], clock_skew.bound_ms / 1000)
    yield skew
    yield bound


def _illegal_topics(counts: Mapping[ClusterRef, int]) -> Metric:
    family = GaugeMetricFamily(
        "headrace_illegal_topics",
        "ignored topics of the cluster with names that Kafka does not allow; no sample if there are none;"
        " reported by the leader",
        labels=["cluster"],
    )
    for cluster, count in counts.items():
        if count:
            family.add_metric([cluster], count)
    return family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _lane_metrics(lanes: tuple[LaneStatus, ...]) -> Iterator[Metric]:
    count = GaugeMetricFamily("headrace_lanes", "lanes by phase", labels=["datastream", "phase"])
    for (group, phase), number in Counter((lane.spec.key.group, lane.phase.value) for lane in lanes).items():
        count.add_metric([group, phase], number)
    yield count
    held = GaugeMetricFamily(
        "headrace_held_back_lanes", "copying lanes throttled by a quota", labels=["datastream"]
    )
    rate = GaugeMetricFamily("headrace_bytes_per_second", "bytes copied", labels=["datastream"])
    records = GaugeMetricFamily("headrace_records_per_second", "records copied", labels=["datastream"])
    lag = GaugeMetricFamily("headrace_lag_records", "records that wait at the source", labels=["datastream"])
    age = GaugeMetricFamily(
        "headrace_lag_seconds", "age of the oldest record not copied yet", labels=["datastream"]
    )
    by_group: dict[GroupName, list[LaneStatus]] = {}
    for lane in lanes:
        by_group.setdefault(lane.spec.key.group, []).append(lane)
    for group, mine in sorted(by_group.items()):
        held.add_metric([group], sum(bool(lane.held_back) for lane in mine))
        rates = [lane.rate for lane in mine if lane.rate is not None]
        rate.add_metric([group], sum(lane_rate.bytes_per_second for lane_rate in rates))
        records.add_metric([group], sum(lane_rate.messages_per_second for lane_rate in rates))
        lags = [lane.lag for lane in mine if lane.phase is not LanePhase.STOPPING]
        waiting = at_least(sum, [records for records, _ in lags])
        if waiting is not None:
            lag.add_metric([group], waiting)
        oldest_ms = at_least(max, [age_ms for _, age_ms in lags])
        if oldest_ms is not None:
            age.add_metric([group], oldest_ms / 1000)
    yield from (held, rate, records, lag, age)


def at_least(combine: Callable[[list[int]], int], numbers: Sequence[int | None]) -> int | None:
    """Combine the known numbers with `combine`. Return None if the result is 0 and some numbers are
    unknown."""
    known = [number for number in numbers if number is not None]
    value = combine(known) if known else None
    return value if value or len(known) == len(numbers) else None


def _task_metrics(sums: tuple[TaskSums, ...]) -> Iterator[Metric]:
    """Yield counters by task, one for each name in `SUMMED`.

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
    """Return the latency histogram by datastream.

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
    """Series of the current sizing advice. Unknown values are omitted, not 0. `current`: function that
    returns the advice of this instance, None if the instance does not lead."""

    def __init__(self, current: Callable[[], Advice | None]) -> None:
        self._current = current

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because the metrics are known only at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        found = self._current()
        for name, (text, value) in _values(found).items():
            family = GaugeMetricFamily(f"headrace_{name}", f"{text}; reported by the leader")
            if value is not None:
                family.add_metric([], float(value))
            yield family


def _values(found: Advice | None) -> dict[str, tuple[str, float | None]]:
    """Return help text and value by metric name."""
    peak = found.peak if found is not None else None
    return {
        "required_tasks": ("tasks needed by the service now", found.required_tasks if found else None),
        "required_instances": (
            "instances needed by the service now",
            found.required_instances if found else None,
        ),
        "required_tasks_at_least": (
            "tasks needed now by the datastreams with a known need",
            found.tasks_at_least if found else None,
        ),
        "required_instances_at_least": (
            "instances needed now by the datastreams with a known need",
            found.instances_at_least if found else None,
        ),
        "peak_required_tasks": (
            "tasks needed in the peak hour of the forecast, at its upper bound",
            peak.most_tasks if peak else None,
        ),
        "peak_required_instances": (
            "instances needed in the peak hour of the forecast",
            found.peak_instances if found else None,
        ),
        "staying_instances": (
            "live instances that are not leaving",
            found.instances if found else None,
        ),
        **_past("day", found.past_day if found else None),
        **_past("week", found.past_week if found else None),
        "advice_timestamp_seconds": (
            "time at which the advice was computed",
            found.computed_ms / 1000 if found else None,
        ),
    }


def _past(span: str, need: PastNeed | None) -> dict[str, tuple[str, float | None]]:
    """Return help text and value of the metrics about the need in a past period. `span`: name of the
    period."""
    return {
        f"past_{span}_known_seconds": (
            f"seconds of the last {span} with known loads of all datastreams",
            need.hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_task_seconds": (
            f"task-seconds with the current number of tasks, in the known hours of the last {span}",
            need.task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_peak_task_seconds": (
            f"task-seconds with the tasks of the busiest hour, in the known hours of the last {span}",
            need.peak_task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_needed_task_seconds": (
            f"task-seconds with the tasks that each hour needed, in the known hours of the last {span}",
            need.needed_task_hours * _HOUR_SECONDS if need else None,
        ),
    }


class CertificateCollector(Collector):
    """Remaining validity of the certificate files.

    The files are read at each scrape, because they may be replaced at any time.
    """

    def __init__(self, certificates: Callable[[], Iterable[CertificateValidity]], clock: Clock) -> None:
        self._certificates = certificates
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because the metrics are known only at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        family = GaugeMetricFamily(
            "headrace_certificate_expires_in_seconds",
            "seconds until a certificate file expires, negative once expired; no sample if unreadable",
            labels=["setting"],
        )
        for certificate in self._certificates():
            left = certificate.seconds_left(self._clock.now_ms())
            if left is not None:
                family.add_metric([certificate.setting], left)
        yield family
