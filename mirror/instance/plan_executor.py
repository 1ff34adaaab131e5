"""Executes the plan on one instance, according to `coordination.reconcile`.

Each call of `obey` is one pass: it reads changes, stops surplus lanes, publishes the holding of this
instance, reads the holdings of other instances, and starts lanes that no other instance may still run. After
a failed pass, the next pass continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.reconcile import (
    InstanceView,
    LaneDuties,
    LaneSpecs,
    duties,
    lane_specs,
    others_of,
    quotas_by_task,
    starts,
)
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.coordination.stores.definitions import DefinitionCache, Definitions, DefinitionStore
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import Holding, LiveInstance, Membership
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.coordination.stores.problems import TroubleStore
from mirror.instance.lost_definitions import LossWatch
from mirror.instance.own_session import Lease
from mirror.instance.workers.costs import CostStore
from mirror.instance.workers.lane_table import LaneLoss, LanePhase
from mirror.instance.workers.report_publisher import ReportPublisher
from mirror.instance.workers.supervisor import Supervisor
from mirror.instance.workers.troubles import troubles_of
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream, clusters_of
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import Epoch, GroupName
from mirror.model.metrics import Drops, WorkerLoss
from mirror.model.plan import Plan
from mirror.ports import Clock, Watch

_log = get_logger(__name__)
_RESTS: Final = 4
"""Minimum pause between two reads of the definitions, as a multiple of a read's duration.

The pause leaves most CPU time to REST if definitions change constantly.
"""
_LONGEST_REST_SECONDS: Final = 0.25
_TAKEN_OVER_MS: Final = 60_000
"""Milliseconds after the loss of an instance in which started lanes count as taken over from it."""


@dataclass(frozen=True)
class FollowerCallbacks:
    """Callbacks that the follower calls on its thread.

    `membership_changed`: receives the membership of this instance, or None. `report_losses`: stores and
    publishes lost worker processes. `event_drops`: returns the number of dropped events of this process.
    """

    membership_changed: Callable[[LiveInstance | None], None]
    report_losses: Callable[[Sequence[WorkerLoss]], None]
    event_drops: Callable[[], Drops]


@dataclass(frozen=True)
class SharedState:
    """Stores that an instance reads and writes, and callbacks of their users."""

    membership: Membership
    definitions: DefinitionStore
    plans: PlanStore
    measured: MeasuredLoads
    troubles: TroubleStore
    costs: CostStore
    bound: BoundClusters
    beginnings: FirstPartitionsStore
    losses: LossWatch
    callbacks: FollowerCallbacks


class ReadSchedule:
    """Postpones reads of plan and definitions while they change often. Reads a new plan without delay."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Make a read of the shared state due: the next call of `begin` returns True."""
        self._is_stale, self._is_plan_new, self._is_put_off = True, False, False
        self._began = self._rests_until = 0.0

    def changed(self, *, now: bool = False) -> None:
        """Note that definitions may have changed. `now`: do not postpone the next read."""
        self._is_stale = True
        if now:
            self._rests_until = 0.0

    def plan_changed(self) -> None:
        """Make a read due because a plan was published. Called by a watch, from any thread."""
        self._is_plan_new = True

    @property
    def due_in(self) -> float | None:
        """Seconds until the next postponed read of the shared state; None if no read is postponed."""
        return max(0.0, self._rests_until - self._clock.monotonic()) if self._is_put_off else None

    def begin(self) -> bool:
        """Return whether to read the shared state now. A caller that reads must call `end` afterwards."""
        self._began = self._clock.monotonic()
        self._is_put_off = self._is_stale and not self._is_plan_new and self._began < self._rests_until
        if not self._is_stale or self._is_put_off:
            return False
        self._is_stale, self._is_plan_new, self._rests_until = False, False, 0.0
        return True

    def end(self) -> None:
        """Mark the end of a read of the shared state. Further reads may be postponed from now on."""
        now = self._clock.monotonic()
        self._rests_until = now + min(_RESTS * (now - self._began), _LONGEST_REST_SECONDS)


class PlanExecutor:
    """Executes plans on this instance. Used by the follower's thread.

    `wake`: called from any thread when the shared state has changed.
    """

    def __init__(
        self,
        shared: SharedState,
        supervisor: Supervisor,
        lease: Lease,
        clock: Clock,
        handover_deadline_seconds: float,
        wake: Watch,
    ) -> None:
        self._shared = shared
        self._supervisor = supervisor
        self._lease = lease
        self._clock = clock
        self._deadline = handover_deadline_seconds
        self._wake = wake
        self._troubles: Mapping[GroupName, str] = {}
        self._groups: Set[GroupName] = frozenset()
        """Groups of which the supervisor may have state."""
        self._definitions = DefinitionCache(shared.definitions, wake)
        self._reads = ReadSchedule(clock)
        self._reports = ReportPublisher(shared.measured, shared.troubles, shared.costs, supervisor, clock)
        self.reset()

    def reset(self) -> None:
        """Drop all state that was read from or written to the coordination store."""
        self._definitions.invalidate()
        self._plan: StoredPlan = NO_PLAN
        self._datastreams: tuple[Datastream, ...] = ()
        self._desired: Mapping[LaneKey, LaneSpec] = {}
        self._undescribed: Mapping[LaneKey, Exception] = {}
        self._quotas: Mapping[GroupName, float] = {}
        self._announced: Holding | None = None
        self._waiting_since: dict[LaneKey, float] = {}
        self._reads.reset()
        self._reports.reset()
        self.definitions: Definitions | None = None
        """All definitions, as last read; None before the first read after joining."""

    def joined(self) -> None:
        """Note that the instance has joined and runs no lane yet."""
        self._announced = Holding()
        self._reads.changed(now=True)

    def state_changed(self) -> None:
        """Note that the shared state may have changed, so that it is read again."""
        self._reads.changed()

    @property
    def next_read_in(self) -> float | None:
        """Seconds until pending changes are read; None if no read is postponed."""
        return self._reads.due_in

    @property
    def epoch(self) -> Epoch:
        """Epoch of the plan in effect."""
        return self._plan.plan.epoch

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """All datastreams, as last read."""
        return self._datastreams

    @property
    def waiting(self) -> int:
        """Number of lanes that another instance has not released yet."""
        return len(self._waiting_since)

    @property
    def troubles(self) -> Mapping[GroupName, str]:
        """Map each group with stalled lanes to the reason, as of the last check of this instance's lanes."""
        return self._troubles

    @property
    def unstarted(self) -> list[LaneSpec]:
        """Lanes that are assigned to this instance, do not run, and need not wait for another instance."""
        lanes = self._supervisor.lanes
        if len(lanes) >= len(self._desired):  # nearly always; stopping lanes still count
            return []
        return [
            spec for key, spec in self._desired.items() if key not in lanes and key not in self._waiting_since
        ]

    @property
    def is_idle(self) -> bool:
        """Return whether the latest plan assigns no lane to this instance, and no lane runs."""
        return not self._desired and not self._supervisor.lanes

    def obey(self, me: LiveInstance) -> None:
        """Stop and start lanes as the plan requires. Raises HeadraceError on failure."""
        if self._reads.begin():
            self._read_plan(me)
            self._reads.end()
        lanes = self._supervisor.lanes
        self._troubles = troubles_of(lanes, self._undescribed, self._supervisor.quarantine.ailing)
        view = InstanceView(
            epoch=self.epoch,
            desired=self._desired,
            running={key: state.spec for key, state in lanes.items()},
            stopping=frozenset(key for key, state in lanes.items() if state.phase is LanePhase.STOPPING),
        )
        todo = duties(view)
        self._supervisor.stop_lanes(todo.stop)
        if todo.holding != self._announced:
            self._shared.membership.announce(me, todo.holding)
            self._announced = todo.holding
        if todo.missing and self._supervisor.health.running:
            self._take_over(me, todo)
        else:
            self._waiting_since = {}
        self._supervisor.share_quotas(self._quotas)

    def share_rates(self, me: LiveInstance) -> None:
        """Publish the demand, stalled lanes and throttled lanes of this instance, every few seconds."""
        self._reports.publish(me, self._troubles, self._datastreams)

    def _note_plan(self) -> None:
        """Note that a new plan was published. Called by a watch, from any thread."""
        self._reads.plan_changed()
        self._wake()

    def _read_plan(self, me: LiveInstance) -> None:
        """Read the plan and the definitions, and compute the desired lanes after a change. Raises SessionLost
        if the coordination store no longer lists this instance as live."""
        self._shared.membership.require(me, self._wake)
        plan = self._shared.plans.read_for(me.name, self._plan, self._note_plan)
        definitions = self._definitions.all()
        datastreams = definitions.datastreams
        if _describes(plan.plan) != _describes(self._plan.plan) or datastreams != self._datastreams:
            bound = {cluster: self._shared.bound.get(cluster) for cluster in clusters_of(datastreams)}
            mine = {placement.group for placement in plan.plan.of_instance(me.name)}
            first = {
                datastream.name: self._shared.beginnings.of(datastream)
                for datastream in datastreams
                if datastream.group in mine
            }
            self._describe(lane_specs(plan.plan, me.name, datastreams, bound, first))
            known = {datastream.group for datastream in datastreams} | {key.group for key in self._desired}
            if gone := self._groups - known:
                self._supervisor.forget(gone)
            self._groups = known.union(key.group for key in self._supervisor.lanes)
        if plan.task_counts != self._plan.task_counts or datastreams != self._datastreams:
            self._quotas = quotas_by_task(plan.task_counts, datastreams)
        self._plan, self._datastreams, self.definitions = plan, datastreams, definitions

    def _describe(self, found: LaneSpecs) -> None:
        """Set the lanes to run. If the new spec of a running lane is invalid, the lane keeps its spec."""
        for key in found.problems.keys() - self._undescribed.keys():
            _log.error("cannot derive lane from its definition", lane=str(key), exc_info=found.problems[key])
        lanes = self._supervisor.lanes
        kept = {key: lanes[key].spec for key in found.problems if key in lanes}
        self._desired, self._undescribed = {**found.specs, **kept}, found.problems

    def _take_over(self, me: LiveInstance, todo: LaneDuties) -> None:
        """Start the missing lanes that no other instance may still run. Requires that the holding of this
        instance was published: of two instances, at least one then sees the holding of the other."""
        members, now = self._shared.membership, self._clock.monotonic()
        members.refresh()
        live = others_of(members.live(), me.sequence)
        others = {instance.name: members.holding(instance) for instance in live}
        overdue = frozenset(
            key for key, since in self._waiting_since.items() if now - since >= self._deadline
        )
        found = starts(todo.missing, self.epoch, others, overdue)
        if found.waiting.keys() - self._waiting_since.keys():
            self._supervisor.expect_lanes(todo.missing[key] for key in found.waiting)
        self._waiting_since = {key: self._waiting_since.get(key, now) for key in found.waiting}
        holders = set(found.waiting.values())
        for instance in live:
            if instance.name in holders:
                members.holding(instance, self._wake)
        if not found.start:
            return
        taken = sorted(str(spec.key.partition) for spec in found.start if spec.key in overdue)
        if taken:
            _log.warning("lanes taken over without release", lanes=taken)
        self._supervisor.extend_lease(self._lease.ends_at())  # no lane copies without a lease
        self._supervisor.start_lanes(found.start, self.epoch, self._loss())
        _log.info("lanes started", plan=self.epoch, lanes=len(found.start))

    def _loss(self) -> LaneLoss | None:
        """Return the latest loss of an instance whose lanes are taken over, or None if none is recent."""
        now_ms = self._clock.now_ms()
        lost = [
            (departure.left_ms, name)
            for name, departure in self._plan.plan.departed.items()
            if departure.is_lost
        ]
        left_ms, name = max(lost, default=(0, None))
        if name is None or now_ms - left_ms > _TAKEN_OVER_MS:
            return None
        return LaneLoss(self._clock.monotonic() - (now_ms - left_ms) / 1000, name)


def _describes(plan: Plan) -> tuple[object, object]:
    """Return those parts of a plan from which lane specs are derived."""
    return plan.tasks, plan.excluded
