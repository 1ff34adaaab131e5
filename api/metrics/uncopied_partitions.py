"""Prometheus metrics of selected partitions that are not copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.identifiers import DatastreamName


def uncopied_metrics(
    uncopied: Sequence[UncopiedLane], lanes: Sequence[LaneStatus], now_ms: int
) -> Iterator[Metric]:
    """Yield metrics of uncopied partitions: only the leader reports those paused by users, without a task, or
    excluded by rules; each instance reports its lanes that paused themselves."""
    by_state: dict[UncopiedState, dict[DatastreamName, list[UncopiedLane]]] = {
        one: {} for one in UncopiedState
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
    itself = Counter(one.spec.key.group for one in lanes if one.phase is LanePhase.PAUSED)
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
        since = [one.what.since_ms for one in found if one.what.since_ms is not None]
        if since:
            family.add_metric([name], max(now_ms - min(since), 0) / 1000)
    return family


def _distances(uncopied: Sequence[UncopiedLane]) -> Iterator[Metric]:
    """Yield metrics of datastreams whose uncopied partitions all have known positions: a partial sum would
    mislead."""
    lag = GaugeMetricFamily(
        "headrace_uncopied_lag_records",
        "records waiting at the source in uncopied partitions; reported by the leader",
        labels=["datastream"],
    )
    retained = GaugeMetricFamily(
        "headrace_uncopied_retained_records",
        "records that retention can still delete before it reaches an uncopied one, minimum of the"
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
            (lag, sum, [one.lag_records for one in lanes]),
            (retained, min, [one.retained_records for one in lanes]),
            (lost, sum, [one.lost_records for one in lanes]),
        ):
            known = [number for number in numbers if number is not None]
            if len(known) == len(numbers):
                family.add_metric([name], combine(known))
    yield from (lag, retained, lost)
