"""Loop of an instance: joins the service, follows plans, and releases lanes in time.

One thread makes all decisions. Watches, session changes and workers only put items into its inbox. All
workers are killed if the session has ended, or if the coordination store has not responded for longer than
the lease allows. Only then may other instances start their lanes. The instance then joins again.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import structlog

from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import reason_of
from mirror.errors import HeadraceError, SessionLost
from mirror.instance.health import Health, HealthCondition
from mirror.instance.lease import Lease
from mirror.instance.plan_executor import PlanExecutor, SharedState
from mirror.instance.workers.lane_table import NOBODY, NONE_IN_TIME, LanePhase, LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import Supervisor
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from mirror.model.metrics import Drops
from mirror.model.nodes import SessionState
from mirror.ports import Clock
from mirror.wording import counted
from mirror.worker.reader import WorkerGone, WorkerMessage

_log = structlog.get_logger(__name__)
_IDLE_SECONDS: Final = 1.0
_BUSY_SECONDS: Final = 0.1
_SLOW_SECONDS: Final = 1.0
"""Response time of the coordination store above which the store is reported as slow."""
_SESSION_PART: Final = "coordination session"
"""Component of the health report for a slow coordination store."""
_LEAVE: Final = "leave"


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of this instance.

    `incarnation`: distinguishes this process from other processes with the same name.
    """

    name: InstanceName
    host: str
    process_id: int
    rest_address: str
    weight: float = 1.0
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))


class Follower(BackgroundThread):
    """Follows the plan on one thread, started by `start` and ended by `stop`."""

    def __init__(
        self,
        identity: Identity,
        shared: SharedState,
        supervisor: Supervisor,
        lease: Lease,
        clock: Clock,
        health: Health,
        handover_deadline_seconds: float,
    ) -> None:
        super().__init__("follower", is_daemon=False)
        self._identity = identity
        self._members, self._measured = shared.membership, shared.measured
        self._supervisor = supervisor
        self._inbox = supervisor.inbox
        self._lease = lease
        self._clock = clock
        self._health = health
        self._deadline = 0.0
        self._plan_executor = PlanExecutor(
            shared, supervisor, lease, clock, handover_deadline_seconds, self.wake
        )
        self._me: LiveInstance | None = None
        self._is_suspended = False
        self._losses = self._losses_noted = 0
        self._turning: int | None = None
        self._is_slow = False
        self._is_leaving = False
        self._drained = threading.Event()
        self._trouble = ""
        self._logged_trouble = ""
        self._parts: set[str] = set()
        self._lanes_seen: Mapping[LaneKey, LaneStatus] = {}
        self._in_time_seen = NONE_IN_TIME
        self._given_up: Mapping[LaneKey, LaneStatus] = {}
        self._drops_seen: Mapping[str, Drops] = {}
        self._lost_definitions = shared.losses
        self._callbacks = shared.callbacks

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """All lanes of this instance, as of the last iteration of the loop. Safe to read from any thread.

        Includes lanes that wait for a worker process. Also includes lanes that were stopped while the
        coordination store was unavailable, until the instance knows its assignment again.
        """
        return self._lanes_seen

    @property
    def in_time(self) -> LanesInTime:
        """Summary of the lanes without late records. Safe to read from any thread."""
        return self._in_time_seen

    @property
    def drops(self) -> Mapping[str, Drops]:
        """Number of measurements and events that this instance could not deliver, by kind. Thread-safe."""
        return self._drops_seen

    @property
    def epoch(self) -> Epoch:
        """Epoch of the plan in effect."""
        return self._plan_executor.epoch

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """All datastreams, as last read. Safe to read from any thread."""
        return self._plan_executor.datastreams

    @property
    def me(self) -> LiveInstance | None:
        """Membership of this instance; None while it has not joined."""
        return self._me

    @property
    def session(self) -> HealthCondition:
        """True if the instance has a coordination session and has joined. Safe to read from any thread."""
        if self._is_suspended:
            return HealthCondition(False, "the coordination store does not respond")
        has_place = self._me is not None
        return HealthCondition(has_place, "joined the service" if has_place else "not joined yet")

    @property
    def has_drained(self) -> bool:
        """True if `drain` was called and no task remains that another instance could run."""
        return self._drained.is_set()

    def wake(self) -> None:
        """Signal a change of the shared state. Called by watches, from any thread."""
        self._inbox.put("wake")

    def session_changed(self, state: SessionState) -> None:
        """Process a change of the session state. Called from the thread of the coordination client."""
        if state is SessionState.LOST:
            self._losses += 1  # before the next session makes contact, which would extend our leases
        self._inbox.put(state)

    def attend(self) -> None:
        """Extend the leases while an iteration of the loop waits for the coordination store.

        Every thread that waits for the store calls this method periodically. If the store is slow, an
        iteration with many requests takes longer than a lease. The call has an effect only in the thread that
        runs the current iteration.
        """
        if threading.get_ident() == self._turning:
            self._extend_lease()
            self._report_slowness()

    def start(self) -> None:
        """Start following the plan."""
        self._supervisor.start()
        self._lost_definitions.start()
        super().start()

    def drain(self, deadline_seconds: float) -> None:
        """Move the tasks of this instance to other instances.

        Waits until the tasks have moved, or until no other instance can run them.
        """
        self._inbox.put(_LEAVE)
        if self._thread.is_alive():
            self._drained.wait(deadline_seconds)

    def stop(self, deadline_seconds: float) -> None:
        """Drain every lane, leave, and join the thread. Safe to call twice."""
        self._deadline = deadline_seconds
        super().stop(deadline_seconds + 5)
        if self._thread.ident is not None:
            self._lost_definitions.stop(5)

    def turn(self, wait_seconds: float) -> None:
        """Run one iteration of the loop.

        `wait_seconds`: maximum time to wait for an item in the inbox.
        """
        self._turning = threading.get_ident()
        self._take_in(wait_seconds)
        self._guard_lease()
        if not self._is_suspended:
            self._follow()
        if self._is_leaving and self._me is None:
            self._drained.set()  # no tasks of ours to hand over
        self._supervisor.restart_dead()
        self._report()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                usual = _BUSY_SECONDS if self._is_busy else _IDLE_SECONDS
                put_off = self._plan_executor.looks_again_in
                self.turn(usual if put_off is None else min(usual, put_off))
            self._leave()
        except Exception as error:  # noqa: BLE001 - the top of a service loop
            _log.exception("follower thread died")
            self._supervisor.kill_all()
            self._health.died("follower", error)

    @property
    def _is_busy(self) -> bool:
        return self._me is None or self._is_leaving or self._plan_executor.waiting > 0

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
            case WorkerMessage() | WorkerGone():
                self._handle(item)
            case SessionState.SUSPENDED:
                self._is_suspended = True
            case SessionState.LOST:
                self._losses_noted += 1
                self._give_up("the session with the coordination store has ended")
            case SessionState.CONNECTED:
                self._is_suspended = False
                self._plan_executor.look_again()
            case leave if leave is _LEAVE:
                self._is_leaving = True
            case _:
                self._plan_executor.look_again()

    def _handle(self, item: WorkerMessage | WorkerGone) -> None:
        with Bulkhead(lambda _: _log.exception("worker message skipped", worker=item.worker)):
            self._supervisor.handle(item)

    def _guard_lease(self) -> None:
        if self._me is not None and self._lease.is_over(self._clock.monotonic()):
            self._give_up("the coordination store has been silent for too long")
        self._extend_lease()

    def _extend_lease(self) -> None:
        """Extend the leases of the workers after the last contact with the store.

        Does nothing if this contact belongs to a later session.
        """
        self._lease.renew()
        until = self._lease.ends_at()
        if self._me is not None and self._losses == self._losses_noted:
            self._supervisor.extend_lease(until)

    def _give_up(self, why: str) -> None:
        if self._me is None:
            return
        _log.warning("giving up all lanes", reason=why)
        self._note_given_up(why)
        self._supervisor.kill_all(self._me.name)
        self._me = None
        self._members.look_again()
        self._plan_executor.reset()
        self._callbacks.membership_changed(None)

    def _note_given_up(self, why: str) -> None:
        """Record the lanes that this instance has given up.

        While the store is unreachable, Headrace does not know whether another instance copies these lanes.
        """
        reason = f"given up because {why}; unknown whether another instance copies it"
        lanes = {
            key: LaneStatus(state.spec, NOBODY, LanePhase.WAITING, reason)
            for key, state in {**self._supervisor.lanes, **self._waiting_lanes()}.items()
            if state.phase is not LanePhase.STOPPING
        }
        self._given_up = {**self._given_up, **lanes}

    def _report_losses(self) -> None:
        """Report lost worker processes. After an error, the next iteration retries."""
        losses = self._supervisor.losses
        if losses:
            self._callbacks.report_losses(tuple(losses))
            losses.clear()

    def _waiting_lanes(self) -> dict[LaneKey, LaneStatus]:
        return self._supervisor.waiting(self._plan_executor.unstarted)

    def _follow(self) -> None:
        self._trouble = ""
        try:
            if self._me is None:
                self._join()
            if self._me is not None:
                self._plan_executor.obey(self._me)
                self._given_up = {}
                if self._plan_executor.definitions is not None:
                    self._lost_definitions.compare(self._plan_executor.definitions, self.wake)
                self._plan_executor.share_rates(self._me)
                self._go_on_leaving(self._me)
                self._report_losses()
            self._logged_trouble = ""
        except SessionLost as error:
            self._give_up(str(error))
        except Exception as error:
            if isinstance(error, HeadraceError) and error.fatal:
                raise
            # Running lanes continue: the plan in effect stays valid even if a document is damaged.
            reason = reason_of(error)
            if reason != self._logged_trouble:
                trace = None if isinstance(error, HeadraceError) else error
                _log.warning("coordination", reason=reason, exc_info=trace)
            self._trouble = self._logged_trouble = reason
            self._plan_executor.look_again()

    def _join(self) -> None:
        """Join the live instances, unless another process has the same name.

        Waits for the workers first. A live instance gets partitions, and they would not be copied without
        workers.
        """
        if not self._supervisor.is_ready:
            self._trouble = "waiting for the workers to start"
            return
        members, identity = self._members, self._identity
        twins = [instance for instance in members.live(self.wake) if instance.name == identity.name]
        for twin in twins:
            if twin.incarnation == identity.incarnation:
                members.leave(twin)  # ours: we gave up while the session lived, or a response was lost
        if any(twin.incarnation != identity.incarnation for twin in twins):
            self._trouble = f"waiting for another instance named {identity.name} to leave"
            return
        me = members.join(LiveInstance(sequence=0, **asdict(identity)))
        if any(instance.name == me.name and instance.sequence < me.sequence for instance in members.live()):
            members.leave(me)  # both had checked before either joined
            return
        self._me = me
        self._plan_executor.joined()
        self._lost_definitions.look_again()
        self._callbacks.membership_changed(me)

    def _go_on_leaving(self, me: LiveInstance) -> None:
        """Continue to leave, until the tasks have moved and this instance has released them."""
        if not self._is_leaving or self.has_drained:
            return
        self._members.begin_to_leave(me)
        stays = any(not instance.is_leaving for instance in self._members.live())
        if not stays or self._plan_executor.is_idle:
            self._drained.set()

    def _report(self) -> None:
        self._lost_definitions.report(self._health)
        idle, busy = {**self._given_up, **self._waiting_lanes()}, self._supervisor.lanes
        self._lanes_seen = {**idle, **busy}
        kept = {key: lane for key, lane in idle.items() if key not in busy}
        self._in_time_seen = self._supervisor.in_time.beside(kept)
        if self._is_suspended:
            reason = "the coordination store does not respond; lanes end with the lease"
            self._health.report("follower", False, reason)
        elif self._trouble or self._me is None:
            self._health.report("follower", False, self._trouble or "no session with the coordination store")
        else:
            lanes, down = self._supervisor.lanes, self._supervisor.workers_down
            silent, starving = self._supervisor.workers_silent, self._supervisor.workers_starving
            paused = sum(state.phase is LanePhase.PAUSED for state in lanes.values())
            self._health.report(
                "follower",
                not (down or silent or starving),
                f"epoch {self.epoch}: {counted(len(lanes), 'lane')} in "
                f"{counted(self._supervisor.workers_running, 'worker')}, "
                f"{paused} paused, {self._plan_executor.waiting} waiting for their former owner"
                + (f"; {counted(down, 'worker')} ended, restart pending" if down else "")
                + (f"; {counted(silent, 'worker does', 'workers do')} not respond" if silent else "")
                + (
                    f"; {counted(starving, 'worker')} lost the lease although this instance has one"
                    if starving
                    else ""
                ),
            )
        self._report_troubles(self._plan_executor.troubles if self._me is not None else {})
        self._report_drops()
        self._report_slowness()

    def _report_slowness(self) -> None:
        """Report a slow store as a warning, because copying continues."""
        seconds = 0.0 if self._is_suspended else self._lease.answer_seconds
        if self._me is not None and self._lease.is_over(self._clock.monotonic()):
            reason = "has not responded for longer than the lease; lanes stop"
            self._health.report(_SESSION_PART, False, reason)
        elif seconds >= _SLOW_SECONDS:
            self._health.report(
                _SESSION_PART,
                True,
                f"takes {seconds:.1f} s to respond: plans, pauses and moves are delayed, copying continues",
            )
        else:
            self._health.forget(_SESSION_PART)
        if self._is_slow != (seconds >= _SLOW_SECONDS):
            self._is_slow = not self._is_slow
            state = "slow" if self._is_slow else "fast again"
            _log.warning(f"the coordination store is {state}", answer_seconds=round(seconds, 1))

    def _report_drops(self) -> None:
        """Report dropped measurements and events as a warning, because copying does not depend on them."""
        self._drops_seen = {"metrics": self._supervisor.drops, "events": self._callbacks.event_drops()}
        for kind, drops in self._drops_seen.items():
            part = f"{kind} records"
            if drops.reason:
                count = counted(drops.count, f"entry of {kind} was", f"entries of {kind} were")
                sentence = f"{count} discarded since the start, no mirrored record: {drops.reason}"
                self._health.report(part, True, sentence)
            else:
                self._health.forget(part)

    def _report_troubles(self, troubles: Mapping[GroupName, str]) -> None:
        parts = {f"lanes of {group}": reason for group, reason in troubles.items()}
        for part in self._parts - parts.keys():
            self._health.forget(part)
        for part, reason in parts.items():
            self._health.report(part, False, reason)
        self._parts = set(parts)

    def _leave(self) -> None:
        self._supervisor.stop(self._deadline)
        if self._me is None:
            return
        try:
            self._measured.withdraw(self._me.name)
            self._members.leave(self._me)
        except HeadraceError as error:
            _log.warning("left without deregistering", reason=str(error))
