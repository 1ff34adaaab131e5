"""States of partitions, time to catch up and time to loss as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from api.movement.verdicts import judged, judged_uncopied
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanesInTime, LaneStatus
from mirror.model.identifiers import GroupName
from monitor.movement.states import LaneJudgement, MovementState


def movement_metrics(lanes: LanesInTime, uncopied: Sequence[UncopiedLane], now: float) -> Iterator[Metric]:
    """Yield metrics by datastream; unknown values have no series. `now`: monotonic seconds."""
    counts: Counter[tuple[GroupName, MovementState]] = Counter()
    losses = {group: max(at - now, 0.0) for group, at in lanes.loss_at.items()}
    ends: dict[GroupName, float] = {}
    losing: Counter[GroupName] = Counter()
    shares: dict[GroupName, float] = {}
    for group, one in _found(lanes.others.values(), uncopied, now):
        if one.state is not None:
            counts[group, one.state] += 1
        if one.seconds_to_loss is not None:
            losses[group] = min(one.seconds_to_loss, losses.get(group, one.seconds_to_loss))
        if one.eta_seconds is not None:
            ends[group] = max(one.eta_seconds, ends.get(group, one.eta_seconds))
        losing[group] += one.loses_data
        if one.loses_data and one.backlog_share is not None:
            shares[group] = max(one.backlog_share, shares.get(group, 0.0))
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
        "partitions whose records will be deleted by retention before they catch up",
        losing,
    )
    yield _by_group(
        "headrace_losing_backlog_ratio",
        "uncopied share of the source's retained records, maximum of the partitions that lose data",
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
