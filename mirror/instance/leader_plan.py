"""Keeps the plan in effect for the leader, which reads and replaces it. Used by the leader's thread."""

from __future__ import annotations

from dataclasses import replace

from mirror.coordination.stores.events import recovery_event
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.errors import DamagedState
from mirror.instance.event_publisher import EventPublisher, Events
from mirror.loggers import get_logger
from mirror.model.identifiers import NO_EPOCH, Epoch
from mirror.model.plan import Plan
from mirror.ports import Clock

_log = get_logger(__name__)


class LeaderPlan:
    """Reads, publishes and rebuilds the plan. `is_recovered`: the plan was rebuilt after damage."""

    def __init__(
        self, plans: PlanStore, membership: Membership, publisher: EventPublisher, clock: Clock
    ) -> None:
        self._plans = plans
        self._membership = membership
        self._publisher = publisher
        self._clock = clock
        self._stored: StoredPlan = NO_PLAN
        self._newest: Plan = NO_PLAN.plan
        """Latest plan that could be read."""
        self.is_recovered = False

    @property
    def current(self) -> Plan:
        """The plan in effect, as last read or published."""
        return self._stored.plan

    def forget(self) -> None:
        """Drop the cached plan, which may be outdated."""
        self._stored = NO_PLAN

    def read(self, me: LiveInstance) -> None:
        """Read the plan in effect. Replace an unreadable plan under a new epoch. Raises HeadraceError."""
        try:
            stored = self._plans.read(self._stored)
        except DamagedState as error:
            self._rebuild(me, error)
        else:
            if stored.version is None:
                # The plan was deleted while instances run, so no epoch that one of them follows is reused.
                epoch = max(self._obeyed_epochs(), default=NO_EPOCH)
                stored = replace(stored, plan=replace(stored.plan, epoch=epoch))
            self._stored, self._newest, self.is_recovered = stored, stored.plan, False
        self._publisher.catch_up(self.current)

    def _rebuild(self, me: LiveInstance, error: DamagedState) -> None:
        self._stored, held = self._plans.recover(self._newest, self._obeyed_epochs())
        if not self.is_recovered:
            reason = f"{error.message}; the node contains {held}"
            _log.error("plan rebuilt", reason=reason, epoch=self.current.epoch)
            self._publisher.announce((recovery_event(me.name, self.current, reason, self._clock.now_ms()),))
        self.is_recovered = True

    def _obeyed_epochs(self) -> list[Epoch]:
        members = self._membership
        holdings = (members.holding(instance) for instance in members.live())
        return [holding.epoch for holding in holdings if holding is not None]

    def publish(self, plan: Plan, events: Events) -> None:
        """Publish a new plan and its events. Raises PlanRejected after a concurrent change, and the errors of
        the store."""
        self._publisher.prepare(plan, events)
        self._stored = self._plans.publish(plan, self._stored)
        self._newest, self.is_recovered = self._stored.plan, False
        self._publisher.catch_up(self.current)
