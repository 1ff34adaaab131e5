"""Publishes reports on the lanes of this instance for the leader. Used by the follower's thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from mirror.coordination.stores import znodes
from mirror.coordination.stores.measured_load import InstanceMeasurements, LateRecords, MeasuredLoads
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import TroubleStore
from mirror.instance.workers.costs import CostStore
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.instance.workers.supervisor import Supervisor
from mirror.instance.workers.troubles import held_back_of, without_topic
from mirror.model.capacity.catch_up import catch_up_by_group
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.movement.demand import Demand, at_least, demand
from mirror.model.topics import TopicPartition
from mirror.ports import Clock

_LEAST_WAITING: Final = 1.0
"""Minimum backlog of a partition in bytes for which it is published."""


def demands_of(
    lanes: Mapping[LaneKey, LaneStatus], before: Mapping[LaneKey, Demand]
) -> dict[LaneKey, Demand]:
    """Return the demand of each lane that has reported: its arrival rate and backlog. `before`: previous
    demands. A lane that does not copy, or whose source does not respond, demands at least the last known
    arrival rate."""
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
    """Return the rates and backlogs to publish. If several groups copy a partition, the maximum counts."""
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


_SHARING_SECONDS: Final = 5.0
_COSTS_SECONDS: Final = 15.0


class ReportPublisher:
    """Publishes demand, stalled and throttled lanes, and copying costs, every few seconds."""

    def __init__(
        self,
        measured: MeasuredLoads,
        troubles: TroubleStore,
        costs: CostStore,
        supervisor: Supervisor,
        clock: Clock,
    ) -> None:
        self._measured = measured
        self._troubles = troubles
        self._costs = costs
        self._supervisor = supervisor
        self._clock = clock
        self._due = 0.0
        self._costs_due: float | None = None
        self._has_demand = False
        self.reset()

    def reset(self) -> None:
        """Forget what was published, because the instance is joining again."""
        self._published: dict[str, Mapping[GroupName, str]] = {}
        self._demands: Mapping[LaneKey, Demand] = {}

    def publish(
        self, me: LiveInstance, troubles: Mapping[GroupName, str], datastreams: Iterable[Datastream]
    ) -> None:
        """Publish due reports. `troubles`: reason for each group with stalled lanes. Raises HeadraceError."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._due = now + _SHARING_SECONDS
        lanes = self._supervisor.lanes
        for folder, found in (
            (znodes.TROUBLES, troubles),
            (znodes.QUOTAS, held_back_of(lanes)),
            (znodes.NO_TOPICS, without_topic(lanes)),
        ):
            if found != self._published.get(folder, {}):
                self._troubles.publish(folder, me.sequence, found)
                self._published[folder] = found
        self._demands = demands_of(lanes, self._demands)
        chosen = catch_up_by_group((datastream.group, datastream.metadata) for datastream in datastreams)
        measured = measured_demand(lanes, self._demands, chosen)
        if measured.rates or self._has_demand:
            self._measured.publish(me.name, measured, self._clock.now_ms())
        self._has_demand = bool(measured.rates)
        self._publish_costs(me, now)

    def _publish_costs(self, me: LiveInstance, now: float) -> None:
        """Publish the copying costs of this instance. First restores the costs from before a restart."""
        tracker = self._supervisor.costs
        if self._costs_due is None:
            tracker.restore(self._costs.of(me.name))
            self._costs_due = now + _COSTS_SECONDS
        if now >= self._costs_due:
            self._costs_due = now + _COSTS_SECONDS
            tracker.trim(self._clock.now_ms())
            if tracker.hours:
                self._costs.put(me.name, tracker.hours)
