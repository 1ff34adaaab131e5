"""Follows the plan: the loop in which an instance joins, obeys epochs, and gives up in time.

One thread decides; everything else (watches, session states, workers) only puts into the inbox.
When ZooKeeper has been silent for longer than the lease allows, by our own clock, or the session is
over, all workers are killed before anybody else may start their lanes; then the instance joins anew.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

import structlog

from mirror.coordination.definitions import DefinitionStore
from mirror.coordination.measured_load import MeasuredLoads
from mirror.coordination.membership import Holding, LiveInstance, Membership
from mirror.coordination.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.coordination.reconcile import InstanceView, Steps, others_of, reconcile
from mirror.errors import HeadraceError, SessionLost
from mirror.instance.health import Health
from mirror.instance.lease import Lease
from mirror.instance.supervisor import LanePhase, LaneState, Supervisor, WorkerGone, WorkerSaid
from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef, Epoch, InstanceName
from mirror.model.topics import TopicPartition
from mirror.ports import Clock, LaneKey

_log = structlog.get_logger(__name__)
_IDLE_SECONDS: Final = 1.0
_BUSY_SECONDS: Final = 0.1


class Session(StrEnum):
    """What the coordination client says of our session. SUSPENDED: it may live, but nobody answers."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True)
class SharedState:
    """The stores an instance reads and writes."""

    membership: Membership
    definitions: DefinitionStore
    plans: PlanStore
    measured: MeasuredLoads


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this instance is. `incarnation` tells this process from all others of its name."""

    name: InstanceName
    host: str
    process_id: int
    rest_address: str
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))


class Follower:
    """One thread, started by `start` and ended by `stop`."""

    def __init__(
        self,
        identity: Identity,
        shared: SharedState,
        supervisor: Supervisor,
        lease: Lease,
        clock: Clock,
        health: Health,
    ) -> None:
        self._identity = identity
        self._shared = shared
        self._supervisor = supervisor
        self._inbox = supervisor.inbox
        self._lease = lease
        self._clock = clock
        self._health = health
        self._stopping = threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, name="follower")
        self._me: LiveInstance | None = None
        self._plan: StoredPlan = NO_PLAN
        self._datastreams: tuple[Datastream, ...] = ()
        self._announced: Holding | None = None
        self._is_suspended = False
        self._is_stale = True
        self._trouble = ""
        self._trouble_told = ""
        self._waiting = 0
        self._rates_due = 0.0
        self._lanes_seen: Mapping[LaneKey, LaneState] = {}
        self.on_joined: Callable[[LiveInstance | None], None] = lambda _: None

    @property
    def lanes(self) -> Mapping[LaneKey, LaneState]:
        """Every lane of this instance, as of the last turn of the loop; safe to read from any thread."""
        return self._lanes_seen

    @property
    def epoch(self) -> Epoch:
        """Of the plan that is obeyed."""
        return self._plan.plan.epoch

    @property
    def me(self) -> LiveInstance | None:
        """Our place among the live ones; None while we have none."""
        return self._me

    def wake(self) -> None:
        """Something in the shared state changed. Called by watches, from any thread."""
        self._inbox.put("wake")

    def session_changed(self, state: Session) -> None:
        """Called from the coordination client's thread."""
        self._inbox.put(state)

    def start(self) -> None:
        """Begin to follow."""
        self._supervisor.start()
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Drain every lane, leave, and join the thread. Safe to call twice."""
        self._deadline = deadline_seconds
        self._stopping.set()
        self._inbox.put("wake")
        if self._thread.ident is not None:
            self._thread.join(deadline_seconds + 5)

    def turn(self, wait_seconds: float) -> None:
        """Once round the loop; waits at most so long for something to happen."""
        self._take_in(wait_seconds)
        self._guard_lease()
        if not self._is_suspended:
            self._follow()
        self._supervisor.revive()
        self._report()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.turn(_BUSY_SECONDS if self._waiting or self._me is None else _IDLE_SECONDS)
            self._leave()
        except Exception as error:  # noqa: BLE001 - the top of a service loop
            _log.exception("the follower died")
            self._supervisor.abandon()
            self._health.died("follower", error)

    def _take_in(self, wait_seconds: float) -> None:
        try:
            item = self._inbox.get(timeout=wait_seconds)
            while True:
                self._note(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _note(self, item: object) -> None:
        match item:
            case WorkerSaid() | WorkerGone():
                self._supervisor.handle(item)
            case Session.SUSPENDED:
                self._is_suspended = True
            case Session.LOST:
                self._give_up("the ZooKeeper session is over")
            case Session.CONNECTED:
                self._is_suspended = False
                self._is_stale = True
            case _:
                self._is_stale = True

    def _guard_lease(self) -> None:
        if self._me is None:
            return
        if self._lease.is_over(self._clock.monotonic()):
            self._give_up("ZooKeeper has been silent for too long")
        else:
            self._supervisor.extend_lease(self._lease.ends_at())

    def _give_up(self, why: str) -> None:
        if self._me is None:
            return
        _log.warning("giving up all lanes", reason=why)
        self._supervisor.abandon()
        self._me = None
        self._announced = None
        self._plan = NO_PLAN
        self.on_joined(None)

    def _follow(self) -> None:
        self._trouble = ""
        try:
            if self._me is None:
                self._join()
            if self._me is not None:
                self._obey(self._me)
                self._share_rates()
            self._trouble_told = ""
        except SessionLost as error:
            self._give_up(str(error))
        except HeadraceError as error:
            if error.fatal:
                raise
            # What runs goes on: also when a document is damaged, the plan that is obeyed is still right.
            if str(error) != self._trouble_told:
                _log.warning("coordination", reason=str(error))
            self._trouble = self._trouble_told = str(error)
            self._is_stale = True

    def _join(self) -> None:
        """Take a place among the live ones, unless another process has our name."""
        members, identity = self._shared.membership, self._identity
        twins = [one for one in members.live(self.wake) if one.name == identity.name]
        for twin in twins:
            if twin.incarnation == identity.incarnation:
                members.leave(twin)  # ours: we gave up while the session lived, or an answer was lost
        if any(twin.incarnation != identity.incarnation for twin in twins):
            self._trouble = f"waiting for the other instance named {identity.name} to go"
            return
        me = members.join(LiveInstance(sequence=0, **asdict(identity)))
        if any(one.name == me.name and one.sequence < me.sequence for one in members.live()):
            members.leave(me)  # both had looked before either was there
            return
        self._me = me
        self._announced = Holding()
        self._is_stale = True
        self.on_joined(me)

    def _obey(self, me: LiveInstance) -> None:
        if self._is_stale:
            self._is_stale = False
            self._plan = self._shared.plans.read(self._plan, self.wake)
            self._datastreams = tuple(one.datastream for one in self._shared.definitions.all(self.wake))
        steps = reconcile(self._view(me))
        if steps.holding != self._announced:
            self._shared.membership.announce(me, steps.holding)
            self._announced = steps.holding
        self._carry_out(steps)

    def _view(self, me: LiveInstance) -> InstanceView:
        lanes = self._supervisor.lanes
        live = self._shared.membership.live(self.wake)
        return InstanceView(
            name=me.name,
            plan=self._plan.plan,
            datastreams=self._datastreams,
            running={key: state.spec for key, state in lanes.items()},
            stopping=frozenset(key for key, state in lanes.items() if state.phase is LanePhase.STOPPING),
            others={
                one.name: self._shared.membership.holding(one, self.wake)
                for one in others_of(live, me.sequence)
            },
        )

    def _carry_out(self, steps: Steps) -> None:
        self._waiting = len(steps.waiting)
        self._supervisor.stop_lanes(steps.stop)
        if steps.start and self._supervisor.workers_running:
            self._supervisor.extend_lease(self._lease.ends_at())  # nobody copies without one
            self._supervisor.start_lanes(steps.start, self._plan.plan.epoch)
            _log.info("lanes start here", plan=self._plan.plan.epoch, lanes=len(steps.start))

    def _share_rates(self) -> None:
        now = self._clock.monotonic()
        if now < self._rates_due or self._me is None:
            return
        self._rates_due = now + 5.0
        rates: dict[ClusterRef, dict[TopicPartition, tuple[float, float]]] = {}
        for key, state in self._supervisor.lanes.items():
            if state.rate is not None:
                pair = (state.rate.bytes_per_second, state.rate.messages_per_second)
                rates.setdefault(state.spec.source, {})[key.partition] = pair
        if rates:
            self._shared.measured.publish(self._me.name, rates, self._clock.now_ms())

    def _report(self) -> None:
        self._lanes_seen = dict(self._supervisor.lanes)
        if self._is_suspended:
            self._health.report("follower", False, "ZooKeeper does not answer; lanes end with the lease")
        elif self._trouble or self._me is None:
            self._health.report("follower", False, self._trouble or "without a ZooKeeper session")
        else:
            lanes = self._supervisor.lanes
            paused = sum(state.phase is LanePhase.PAUSED for state in lanes.values())
            self._health.report(
                "follower",
                True,
                f"epoch {self._plan.plan.epoch}: {len(lanes)} lanes in {self._supervisor.workers_running} "
                f"workers, {paused} paused, {self._waiting} waiting for their former owner",
            )

    def _leave(self) -> None:
        self._supervisor.stop(self._deadline)
        if self._me is None:
            return
        try:
            self._shared.measured.withdraw(self._me.name)
            self._shared.membership.leave(self._me)
        except HeadraceError as error:
            _log.warning("left without saying so", reason=str(error))
