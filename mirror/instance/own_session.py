"""Session of an instance: its lease, the lease of its workers, and its membership.

The store ends a session if it receives no request for the session timeout. `last_contact()` is the send time
of the last request with a response, so the session lives at least one timeout longer. The lease ends earlier,
so that the workers of this instance have stopped before another instance may start their lanes. All times are
measured with the clock of this machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.instance.workers.supervisor import Supervisor
from mirror.loggers import get_logger
from mirror.model.identifiers import InstanceName
from mirror.ports import Clock, Watch

_log = get_logger(__name__)
SHARE: Final = 0.7
"""Length of the lease as a share of the session timeout."""


class Contact(Protocol):
    """Access to the session's last contact with the coordination store."""

    def session_timeout_seconds(self) -> float:
        """Return the session timeout that the server granted, which may be shorter than requested."""
        ...

    def last_contact(self) -> float:
        """Return the send time of the last request with a response (monotonic seconds)."""
        ...

    def beat(self) -> None:
        """Send a heartbeat to the coordination store without waiting for the response."""
        ...

    def answer_seconds(self) -> float:
        """Return the current response time of the store in seconds."""
        ...


class Lease:
    """Lease of an instance: the time until which it may copy without contact to the store. Times are
    monotonic seconds, a clock that all processes of a machine share."""

    def __init__(self, contact: Contact) -> None:
        self._contact = contact

    def renew(self) -> None:
        """Send a heartbeat, whose response extends the lease of this instance."""
        self._contact.beat()

    @property
    def answer_seconds(self) -> float:
        """Current response time of the coordination store in seconds."""
        return self._contact.answer_seconds()

    def ends_at(self) -> float:
        """Return the time at which the lease ends if the store does not respond again (monotonic seconds)."""
        return self._contact.last_contact() + self._contact.session_timeout_seconds() * SHARE

    def is_over(self, now: float) -> bool:
        """Return whether the lease of the instance has ended. All lanes must stop then."""
        return now >= self.ends_at()


class WorkerLease:
    """Extends the lease of the workers to the end of the instance's lease.

    From the end of a session until the follower has handled it, the lease is not extended, because the last
    contact may belong to the next session.
    """

    def __init__(self, lease: Lease, supervisor: Supervisor, clock: Clock) -> None:
        self._lease = lease
        self._supervisor = supervisor
        self._clock = clock
        self._losses = self._losses_handled = 0

    @property
    def is_over(self) -> bool:
        """Return whether the instance's lease has ended. All lanes must stop then."""
        return self._lease.is_over(self._clock.monotonic())

    @property
    def answer_seconds(self) -> float:
        """Current response time of the coordination store."""
        return self._lease.answer_seconds

    def session_lost(self) -> None:
        """Count the end of a session. Called on the coordination client's thread, before a new session."""
        self._losses += 1

    def loss_handled(self) -> None:
        """Note that the follower has stopped all lanes after the end of a session."""
        self._losses_handled += 1

    def extend(self, *, is_member: bool) -> None:
        """Send a heartbeat, and extend the workers' lease, which starts at the last contact."""
        self._lease.renew()
        until = self._lease.ends_at()
        if is_member and self._losses == self._losses_handled:
            self._supervisor.extend_lease(until)


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of this instance. `incarnation`: distinguishes processes with the same name."""

    name: InstanceName
    host: str
    process_id: int
    rest_address: str
    weight: float = 1.0
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))


class OwnMembership:
    """Registers and deregisters this instance. `me`: membership of this instance; None before joining."""

    def __init__(self, members: Membership, identity: Identity) -> None:
        self._members = members
        self._identity = identity
        self.me: LiveInstance | None = None
        self._awaited = ""

    def join(self, watch: Watch) -> str:
        """Register this instance as live, unless another process has the same name.

        Returns the reason for waiting, if any. `watch`: called from any thread when an instance joins or
        leaves. Raises HeadraceError if the store fails.
        """
        members, identity = self._members, self._identity
        twins = [instance for instance in members.live(watch) if instance.name == identity.name]
        for twin in twins:
            if twin.incarnation == identity.incarnation:
                members.leave(twin)  # ours: we gave up while the session lived, or a response was lost
        awaited = _awaited([twin for twin in twins if twin.incarnation != identity.incarnation])
        if awaited != self._awaited and awaited:
            _log.warning("not joined", reason=awaited)
        self._awaited = awaited
        if awaited:
            return awaited
        me = members.join(LiveInstance(sequence=0, **asdict(identity)))
        if any(instance.name == me.name and instance.sequence < me.sequence for instance in members.live()):
            members.leave(me)  # both had checked before either joined
            return ""
        self.me = me
        return ""

    def give_up(self) -> None:
        """Drop the membership, because it may have ended with the session."""
        self.me = None
        self._members.invalidate()

    def begin_to_leave(self, me: LiveInstance) -> bool:
        """Announce that this instance is leaving. Return whether another instance remains."""
        self._members.begin_to_leave(me)
        return any(not instance.is_leaving for instance in self._members.live())

    def leave(self, me: LiveInstance) -> None:
        """Deregister this instance. Raises HeadraceError."""
        self._members.leave(me)


def _awaited(others: Sequence[LiveInstance]) -> str:
    """Return the reason to wait for live instances with the same name, or an empty string."""
    if not others:
        return ""
    other = others[0]
    return (
        f"waiting for another instance named {other.name} to leave: process {other.process_id} on"
        f" {other.host}, REST at {other.rest_address}; if it still runs, stop it or set a different"
        " mirror.instance_name"
    )
