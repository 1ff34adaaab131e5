"""Loop of an instance: joins the service, follows plans, and releases lanes in time.

One thread makes all decisions. Watches, session changes and workers only put items into its inbox. When the
session has ended, or the coordination store has been silent for longer than the lease, all workers are killed
before other instances may start their lanes. The instance then joins again.
"""

from __future__ import annotations

import queue
import threading
from typing import Final

from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import HeadraceError, SessionLost
from mirror.instance.follower_health import FollowerHealth
from mirror.instance.health import Health, HealthCondition
from mirror.instance.own_session import Identity, Lease, OwnMembership, WorkerLease
from mirror.instance.plan_executor import PlanExecutor, SharedState
from mirror.instance.workers.lane_table import LaneStatus
from mirror.instance.workers.lane_view import LaneView
from mirror.instance.workers.supervisor import Supervisor
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import Epoch
from mirror.model.nodes import SessionState
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from mirror.worker.channel import WorkerGone, WorkerMessage

_log = get_logger(__name__)
_IDLE_SECONDS: Final = 1.0
_BUSY_SECONDS: Final = 0.1
_LEAVE: Final = "leave"


class Follower(BackgroundThread):
    """The loop that makes an instance follow the plan, on one thread from `start` to `stop`."""

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
        self.membership = OwnMembership(shared.membership, identity)
        self.view = LaneView()
        self.condition = FollowerHealth(health)
        self._measured = shared.measured
        self._supervisor = supervisor
        self._inbox = supervisor.inbox
        self._lease = WorkerLease(lease, supervisor, clock)
        self._health = health
        self._deadline = 0.0
        self._plan_executor = PlanExecutor(
            shared, supervisor, lease, clock, handover_deadline_seconds, self.wake
        )
        self._is_suspended = False
        self._loop_thread: int | None = None
        self._is_leaving = False
        self._drained = threading.Event()
        self._trouble = ""
        self._logged_trouble = ""
        self._lost_definitions = shared.losses
        self._callbacks = shared.callbacks

    @property
    def epoch(self) -> Epoch:
        """Epoch of the plan in effect."""
        return self._plan_executor.epoch

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """All datastreams, as last read. Safe to read from any thread."""
        return self._plan_executor.datastreams

    @property
    def session(self) -> HealthCondition:
        """Return whether the instance is a live member with a coordination session. Thread-safe."""
        if self._is_suspended:
            return HealthCondition(False, "the coordination store does not respond")
        has_place = self.membership.me is not None
        return HealthCondition(has_place, "joined the service" if has_place else "not joined yet")

    @property
    def has_drained(self) -> bool:
        """Return whether `drain` was called and no task remains that another instance could take over."""
        return self._drained.is_set()

    def wake(self) -> None:
        """Wake the loop after a change of the shared state. Called by watches, from any thread."""
        self._inbox.put("wake")

    def session_changed(self, state: SessionState) -> None:
        """Handle a change of the session state. Called from the thread of the coordination client."""
        if state is SessionState.LOST:
            self._lease.session_lost()
        self._inbox.put(state)

    def attend(self) -> None:
        """Extend the leases while an iteration of the loop waits for the coordination store.

        Every thread that waits for the store calls this method, because a slow store can make an iteration
        longer than a lease. Other threads than that of the iteration extend nothing.
        """
        if threading.get_ident() == self._loop_thread:
            self._lease.extend(is_member=self.membership.me is not None)
            self._report_store()

    def start(self) -> None:
        """Start the thread that follows the plan."""
        self._supervisor.start()
        self._lost_definitions.start()
        super().start()

    def drain(self, deadline_seconds: float) -> None:
        """Hand over all tasks of this instance to other instances, if any can run them."""
        self._inbox.put(_LEAVE)
        if self._thread.is_alive():
            self._drained.wait(deadline_seconds)

    def stop(self, deadline_seconds: float) -> None:
        """Drain every lane, deregister the instance, and join the thread. Safe to call twice."""
        self._deadline = deadline_seconds
        super().stop(deadline_seconds + 5)
        if self._thread.ident is not None:
            self._lost_definitions.stop(5)

    def run_once(self, wait_seconds: float) -> None:
        """Run one iteration of the follower's loop.

        `wait_seconds`: maximum time to wait for an item in the inbox.
        """
        self._loop_thread = threading.get_ident()
        self._take_in(wait_seconds)
        self._guard_lease()
        if not self._is_suspended:
            self._follow()
        if self._is_leaving and self.membership.me is None:
            self._drained.set()  # no tasks of ours to hand over
        self._supervisor.restart_dead()
        self._report()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                is_moving = self._is_leaving or self._plan_executor.waiting > 0
                usual = _BUSY_SECONDS if is_moving or self.membership.me is None else _IDLE_SECONDS
                put_off = self._plan_executor.next_read_in
                self.run_once(usual if put_off is None else min(usual, put_off))
            self._leave()
        except Exception as error:  # noqa: BLE001 - the top of a service loop
            _log.exception("follower thread died")
            self._supervisor.kill_all()
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
            case WorkerMessage() | WorkerGone():
                with Bulkhead(lambda _: _log.exception("worker message skipped", worker=item.worker)):
                    self._supervisor.handle(item)
            case SessionState.SUSPENDED:
                self._is_suspended = True
            case SessionState.LOST:
                self._lease.loss_handled()
                self._give_up("the session with the coordination store has ended")
            case SessionState.CONNECTED:
                self._is_suspended = False
                self._plan_executor.state_changed()
            case leave if leave is _LEAVE:
                self._is_leaving = True
            case _:
                self._plan_executor.state_changed()

    def _guard_lease(self) -> None:
        if self.membership.me is not None and self._lease.is_over:
            self._give_up("the coordination store has been silent for too long")
        self._lease.extend(is_member=self.membership.me is not None)

    def _give_up(self, why: str) -> None:
        me = self.membership.me
        if me is None:
            return
        _log.warning("giving up all lanes", reason=why)
        self.view.give_up({**self._supervisor.lanes, **self._waiting_lanes()}, why)
        self._supervisor.kill_all(me.name)
        self.membership.give_up()
        self._plan_executor.reset()
        self._callbacks.membership_changed(None)

    def _report_losses(self) -> None:
        """Publish the losses of worker processes. After an error, the next iteration retries."""
        losses = self._supervisor.losses
        if losses:
            self._callbacks.report_losses(tuple(losses))
            losses.clear()

    def _waiting_lanes(self) -> dict[LaneKey, LaneStatus]:
        return self._supervisor.waiting(self._plan_executor.unstarted)

    def _follow(self) -> None:
        self._trouble = ""
        try:
            me = self.membership.me or self._joined()
            if me is not None:
                self._plan_executor.obey(me)
                self.view.assignment_known()
                if self._plan_executor.definitions is not None:
                    self._lost_definitions.compare(self._plan_executor.definitions, self.wake)
                self._plan_executor.share_rates(me)
                self._go_on_leaving(me)
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
                _log.warning("cannot follow the plan", reason=reason, exc_info=trace)
            self._trouble = self._logged_trouble = reason
            self._plan_executor.state_changed()

    def _joined(self) -> LiveInstance | None:
        """Register as a live instance, and return the membership; None if the instance must wait. Waits for
        the workers first, because a live instance gets partitions to copy."""
        if not self._supervisor.health.is_ready:
            self._trouble = "waiting for the workers to start"
            return None
        self._trouble = self.membership.join(self.wake)
        if self.membership.me is not None:
            self._plan_executor.joined()
            self._lost_definitions.compare_again()
            self._callbacks.membership_changed(self.membership.me)
        return self.membership.me

    def _go_on_leaving(self, me: LiveInstance) -> None:
        """Continue to leave, until this instance has released its tasks."""
        if not self._is_leaving or self.has_drained:
            return
        stays = self.membership.begin_to_leave(me)
        if not stays or self._plan_executor.is_idle:
            self._drained.set()

    def _report(self) -> None:
        self._lost_definitions.report(self._health)
        lanes = self._supervisor.lanes
        self.view.publish(lanes, self._supervisor.in_time, self._waiting_lanes())
        has_joined = self.membership.me is not None
        if self._is_suspended:
            reason = "the coordination store does not respond; lanes stop when the lease ends"
            self.condition.report_problem(reason)
        elif self._trouble or not has_joined:
            self.condition.report_problem(self._trouble or "no session with the coordination store")
        else:
            waiting, workers = self._plan_executor.waiting, self._supervisor.health
            self.condition.report_workers(self.epoch, lanes, waiting, workers)
        self.condition.report_troubles(self._plan_executor.troubles if has_joined else {})
        lost = self._supervisor.measurements.drops
        self.condition.report_drops({"metrics": lost, "events": self._callbacks.event_drops()})
        self._report_store()

    def _report_store(self) -> None:
        seconds = 0.0 if self._is_suspended else self._lease.answer_seconds
        is_lease_over = self.membership.me is not None and self._lease.is_over
        self.condition.report_store(seconds, is_lease_over=is_lease_over)

    def _leave(self) -> None:
        self._supervisor.stop(self._deadline)
        me = self.membership.me
        if me is None:
            return
        try:
            self._measured.withdraw(me.name)
            self.membership.leave(me)
        except HeadraceError as error:
            _log.warning("left without deregistering", reason=str(error))
