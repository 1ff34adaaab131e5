"""Operations of monitors: acquire the lease, permit rebalances, and request them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.coordination.monitors.state import ActingState, Switch
from mirror.coordination.monitors.store import ActingStore
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model import bounds
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.ports import Clock


@dataclass(frozen=True)
class MonitorActions:
    """Operations of monitors, such as renewing the lease. Every change requires rights on all datastreams.

    `live`: callback that returns the live instances.
    """

    store: ActingStore
    live: Callable[[], Sequence[LiveInstance]]
    clock: Clock

    def state(self) -> ActingState:
        """Return the stored state of monitors. Raises Unreachable."""
        return self.store.state()

    def waiting(self, state: ActingState) -> DatastreamName | None:
        """Return the datastream for which a monitor has requested a rebalance not planned yet, or None."""
        return self.store.waiting(state)

    def switch(self, control: Control, is_on: bool, reason: str, requested_by: str) -> ActingState:
        """Allow or forbid rebalances by monitors. Raises InvalidRequest, Forbidden, Unreachable."""
        bounds.cause(reason, requested_by)
        control.check_right_to_all(f"switch rebalances by monitors {'on' if is_on else 'off'}", reason)
        requester = control.caller.signed(requested_by)
        return self.store.switch(Switch(is_on, reason, requester, self.clock.now_ms()))

    def hold(self, control: Control, holder: str, instance: InstanceName | None = None) -> ActingState:
        """Renew or acquire the lease of the active monitor.

        `instance`: the instance that runs the monitor.

        Raises InvalidRequest, Forbidden, Unreachable.
        """
        bounds.line("the holder", holder)
        control.check_right_to_all()
        live = self.live() if instance is not None else ()
        sequence = next((session.sequence for session in live if session.name == instance), None)
        return self.store.hold(holder, sequence, lambda: {session.sequence for session in self.live()})

    def release(self, control: Control, holder: str) -> None:
        """Release the lease of the active monitor, so that another can acquire it at once. Raises Forbidden,
        Unreachable."""
        control.check_right_to_all()
        self.store.release(holder)

    def rebalance(self, control: Control, lease: str, command: TriggerRebalance) -> RebalanceRequest:
        """Queue a rebalance request of the monitor that holds the lease, and return the request.

        Raises NotFound, Forbidden, Unreachable; IllegalTransition if the monitor no longer holds the lease or
        is not permitted to act.
        """
        request = control.request_of(command)
        added = replace(request, identity=self.store.act(lease, command.name, request))
        control.record_request(added)
        return added
