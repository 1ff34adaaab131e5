"""Prometheus metrics about partitions, audits and consumer groups.

The metrics are states of partitions, time to catch up and time to loss, uncopied partitions, continuous
audits, and consumer groups whose offsets are copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.instance.backlog.partitions import UncopiedState
from mirror.instance.backlog.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LanesInTime, LaneStatus
from mirror.jobs.audits.summary import TopicAudit
from mirror.jobs.groups.status import Statuses
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.ports import Clock
from monitor.lane_verdicts import judged, judged_uncopied
from monitor.movement.states import LaneJudgement, MovementState


def movement_metrics(lanes: LanesInTime, uncopied: Sequence[UncopiedLane], now: float) -> Iterator[Metric]:
    """Yield metrics by datastream; unknown values have no series.

    `now`: monotonic seconds.
    """
    counts: Counter[tuple[GroupName, MovementState]] = Counter()
    losses = {group: max(at - now, 0.0) for group, at in lanes.loss_at.items()}
    ends: dict[GroupName, float] = {}
    losing: Counter[GroupName] = Counter()
    shares: dict[GroupName, float] = {}
    for group, position in _found(lanes.others.values(), uncopied, now):
        if position.state is not None:
            counts[group, position.state] += 1
        if position.seconds_to_loss is not None:
            losses[group] = min(position.seconds_to_loss, losses.get(group, position.seconds_to_loss))
        if position.eta_seconds is not None:
            ends[group] = max(position.eta_seconds, ends.get(group, position.eta_seconds))
        losing[group] += position.loses_data
        if position.loses_data and position.backlog_share is not None:
            shares[group] = max(position.backlog_share, shares.get(group, 0.0))
    for group, number in lanes.counts.items():
        counts[group, MovementState.OK] += number
        losing[group] += 0
    states = GaugeMetricFamily(
        "headrace_partitions", "partitions by state of movement", labels=["datastream", "state"]
    )
    for (group, state), number in sorted(counts.items()):
        states.add_metric([group, state], number)
    yield states
    yield _by_group(
        "headrace_partitions_losing_data",
        "partitions whose records retention will delete before they are copied",
        losing,
    )
    yield _by_group(
        "headrace_losing_backlog_ratio",
        "uncopied share of the records that the source retains: maximum over the partitions that lose data",
        shares,
    )
    yield _by_group(
        "headrace_time_to_loss_seconds",
        "time until the source first deletes an uncopied record",
        losses,
    )
    yield _by_group("headrace_catch_up_seconds", "time until the last partition has caught up", ends)


def _found(
    lanes: Iterable[LaneStatus], uncopied: Sequence[UncopiedLane], now: float
) -> Iterator[tuple[GroupName, LaneJudgement]]:
    for lane in lanes:
        yield lane.spec.key.group, judged(lane, now)
    for other in uncopied:
        yield other.what.group, judged_uncopied(other, now)


def _by_group(name: str, text: str, values: dict[GroupName, float] | Counter[GroupName]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["datastream"])
    for group, value in sorted(values.items()):
        family.add_metric([group], value)
    return family


def uncopied_metrics(
    uncopied: Sequence[UncopiedLane], lanes: Sequence[LaneStatus], now_ms: int
) -> Iterator[Metric]:
    """Yield metrics of uncopied partitions.

    Only the leader reports partitions paused by users, without a task, or excluded by rules. Each instance
    reports its own lanes that have paused themselves.
    """
    by_state: dict[UncopiedState, dict[DatastreamName, list[UncopiedLane]]] = {
        state: {} for state in UncopiedState
    }
    for lane in uncopied:
        by_state[lane.what.state].setdefault(lane.what.datastream, []).append(lane)
    paused = GaugeMetricFamily(
        "headrace_paused_partitions",
        "partitions paused by a user, or by the lane itself",
        labels=["datastream", "by"],
    )
    for name, found in by_state[UncopiedState.PAUSED].items():
        paused.add_metric([name, "person"], len(found))
    itself = Counter(lane.spec.key.group for lane in lanes if lane.phase is LanePhase.PAUSED)
    for group, count in itself.items():
        paused.add_metric([group, "itself"], count)
    yield paused
    yield _ages(by_state[UncopiedState.PAUSED], now_ms)
    for state, metric, text in (
        (UncopiedState.UNPLACED, "headrace_unplaced_partitions", "partitions without a running task"),
        (UncopiedState.LEFT_OUT, "headrace_left_out_partitions", "partitions excluded by a rule"),
    ):
        family = GaugeMetricFamily(metric, f"{text}; reported by the leader", labels=["datastream"])
        for datastream, found in by_state[state].items():
            family.add_metric([datastream], len(found))
        yield family
    yield from _distances(uncopied)


def _ages(paused: dict[DatastreamName, list[UncopiedLane]], now_ms: int) -> Metric:
    family = GaugeMetricFamily(
        "headrace_paused_seconds",
        "age of the oldest pause by a user; reported by the leader",
        labels=["datastream"],
    )
    for name, found in paused.items():
        since = [lane.what.since_ms for lane in found if lane.what.since_ms is not None]
        if since:
            family.add_metric([name], max(now_ms - min(since), 0) / 1000)
    return family


def _distances(uncopied: Sequence[UncopiedLane]) -> Iterator[Metric]:
    """Yield metrics of datastreams whose uncopied partitions all have a known position.

    A partial sum would mislead.
    """
    lag = GaugeMetricFamily(
        "headrace_uncopied_lag_records",
        "records waiting at the source in uncopied partitions; reported by the leader",
        labels=["datastream"],
    )
    retained = GaugeMetricFamily(
        "headrace_uncopied_retained_records",
        "copied records that retention will delete before it reaches an uncopied record: minimum over the"
        " partitions; reported by the leader",
        labels=["datastream"],
    )
    lost = GaugeMetricFamily(
        "headrace_uncopied_lost_records",
        "records deleted at the source before they were copied; reported by the leader",
        labels=["datastream"],
    )
    by_name: dict[DatastreamName, list[UncopiedLane]] = {}
    for lane in uncopied:
        by_name.setdefault(lane.what.datastream, []).append(lane)
    for name, lanes in by_name.items():
        for family, combine, numbers in (
            (lag, sum, [lane.lag_records for lane in lanes]),
            (retained, min, [lane.retained_records for lane in lanes]),
            (lost, sum, [lane.lost_records for lane in lanes]),
        ):
            known = [number for number in numbers if number is not None]
            if len(known) == len(numbers):
                family.add_metric([name], combine(known))
    yield from (lag, retained, lost)


class AuditCollector(Collector):
    """Series of continuous audits. `current`: audits of this instance by topic."""

    def __init__(self, current: Callable[[], Sequence[TopicAudit]], clock: Clock) -> None:
        self._current = current
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because the metrics are known only at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        labels = ("datastream", "topic")
        ages = GaugeMetricFamily(
            "headrace_audit_complete_through_age_seconds",
            "age of the time up to which all records are at the destination, lateness included",
            labels=labels,
        )
        faults = GaugeMetricFamily(
            "headrace_audit_fault_records",
            "audited records that differ without an explanation, by verdict",
            labels=(*labels, "verdict"),
        )
        waiting = GaugeMetricFamily(
            "headrace_audit_waiting_offsets", "copied source offsets that are not audited yet", labels=labels
        )
        for audit in self._current():
            place = [audit.datastream, audit.topic]
            waiting.add_metric(place, audit.waiting)
            if audit.through_ms is not None:
                ages.add_metric(place, max(self._clock.now_ms() - audit.through_ms, 0) / 1_000)
            for verdict, records in sorted(audit.fault_records.items()):
                faults.add_metric([*place, verdict], records)
        yield from (ages, faults, waiting)


class GroupCollector(Collector):
    """Series of the consumer groups whose offsets are copied.

    `current`: statuses known to this instance; empty if this instance does not lead.
    """

    def __init__(self, current: Callable[[], Statuses], clock: Clock) -> None:
        self._current = current
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Return no descriptions, because the metrics are known only at a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        groups = GaugeMetricFamily(
            "headrace_consumer_groups",
            "consumer groups with positions in topics of the datastream; reported by the leader",
            labels=("datastream",),
        )
        hindered = GaugeMetricFamily(
            "headrace_consumer_groups_hindered",
            "consumer groups that do not follow to the destination, by reason; reported by the leader",
            labels=("datastream", "reason"),
        )
        ages = GaugeMetricFamily(
            "headrace_consumer_groups_age_seconds",
            "time since the last synchronisation of all groups; reported by the leader",
            labels=("datastream",),
        )
        for name, status in sorted(self._current().items()):
            groups.add_metric([name], status.groups)
            for reason, count in sorted(status.reasons.items()):
                hindered.add_metric([name, reason], count)
            if status.round_ms is not None:
                ages.add_metric([name], max(self._clock.now_ms() - status.round_ms, 0) / 1_000)
        yield from (groups, hindered, ages)
