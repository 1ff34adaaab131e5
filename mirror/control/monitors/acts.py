"""The use cases of monitors: which of them judges, may it act, and its rebalances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.coordination.acting.state import ActingState, Switch
from mirror.coordination.acting.store import ActingStore
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model import bounds
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.ports import Clock


@dataclass(frozen=True)
class Acting:
    """`live`: the instances that are here. `control`: the use cases of who asks, as everything that is
    changed here needs the right to change every datastream."""

    store: ActingStore
    live: Callable[[], Sequence[LiveInstance]]
    clock: Clock

    def state(self) -> ActingState:
        """As it is stored. Raises Unreachable."""
        return self.store.state()

    def waiting(self, state: ActingState) -> DatastreamName | None:
        """The datastream whose rebalance a monitor has asked for and no plan has answered yet."""
        return self.store.waiting(state)

    def switch(self, control: Control, is_on: bool, reason: str, requested_by: str) -> ActingState:
        """Let monitors act or forbid it. Raises InvalidRequest, Forbidden, Unreachable."""
        bounds.text("the reason", reason, bounds.LONGEST_REASON)
        bounds.text("requested_by", requested_by, bounds.LONGEST_NAME)
        control.check_right_to_all(f"switch acting of monitors {'on' if is_on else 'off'}", reason)
        said = control.caller.signed(requested_by)
        return self.store.switch(Switch(is_on, reason, said, self.clock.now_ms()))

    def hold(self, control: Control, holder: str, instance: InstanceName | None = None) -> ActingState:
        """Renew this monitor's lease, or take it where nobody has it any more. `instance`: the one that it is
        part of. Raises InvalidRequest, Forbidden, Unreachable."""
        bounds.line("the holder", holder)
        control.check_right_to_all()
        live = self.live() if instance is not None else ()
        sequence = next((one.sequence for one in live if one.name == instance), None)
        return self.store.hold(holder, sequence, lambda: {one.sequence for one in self.live()})

    def release(self, control: Control, holder: str) -> None:
        """Let another monitor judge at once. Raises Forbidden, Unreachable."""
        control.check_right_to_all()
        self.store.release(holder)

    def rebalance(self, control: Control, lease: str, command: TriggerRebalance) -> RebalanceRequest:
        """Ask for it on behalf of the monitor that has the lease. Raises NotFound, Forbidden,
        IllegalTransition where it has it no more, or must not act; Unreachable."""
        request = control.request_of(command)
        added = replace(request, identity=self.store.act(lease, command.name, request))
        control.note_asked(added)
        return added
