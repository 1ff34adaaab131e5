"""Load that the lanes of an instance need, for plans. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from mirror.coordination.stores.measured_load import InstanceMeasurements, LateRecords
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.movement.demand import Demand, at_least, demand
from mirror.model.topics import TopicPartition

_LEAST_WAITING: Final = 1.0
"""Minimum backlog in bytes to publish."""


def demands_of(
    lanes: Mapping[LaneKey, LaneStatus], before: Mapping[LaneKey, Demand]
) -> dict[LaneKey, Demand]:
    """Return the demand of every lane that has reported.

    `before`: previous demands. If a lane does not copy, or if its source does not respond, its demand is at
    least the last known arrival rate.
    """
    return {
        key: at_least(_demand(state, copied), before.get(key))
        for key, state in lanes.items()
        if (copied := _copied(state)) is not None
    }


def _copied(state: LaneStatus) -> tuple[float, float] | None:
    rate = state.rate
    return None if rate is None else (rate.bytes_per_second, rate.messages_per_second)


def _demand(state: LaneStatus, copied: tuple[float, float]) -> Demand:
    is_copying = state.phase is LanePhase.COPYING
    if is_copying and state.track.quiet_at > -inf:
        return Demand(copied)  # in time: histories are not evaluated, because most lanes are
    found = demand(copied, state.history)
    return found if is_copying else found._replace(is_least=True)


def measured_demand(
    lanes: Mapping[LaneKey, LaneStatus],
    demands: Mapping[LaneKey, Demand],
    catch_up_seconds: Mapping[GroupName, int],
) -> InstanceMeasurements:
    """Return the measurements to publish.

    For a partition that several groups copy, the maximum counts.
    """
    rates: dict[ClusterRef, dict[TopicPartition, tuple[float, float]]] = {}
    behind: dict[ClusterRef, set[TopicPartition]] = {}
    waiting: dict[ClusterRef, dict[TopicPartition, LateRecords]] = {}
    for key, lane_demand in demands.items():
        source, place = lanes[key].spec.source, key.partition
        known = rates.setdefault(source, {})
        known[place] = max(known.get(place, lane_demand.arriving), lane_demand.arriving)
        if lane_demand.is_least:
            behind.setdefault(source, set()).add(place)
        if lane_demand.waiting[0] >= _LEAST_WAITING:
            late = waiting.setdefault(source, {})
            new = LateRecords(*lane_demand.waiting, catch_up_seconds.get(key.group))
            late[place] = max(late.get(place, new), new, key=lambda each: each.bytes)
    return InstanceMeasurements(rates, behind, waiting)
