"""Membership of this instance among the live instances. Used by the follower's thread."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import structlog

from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.model.identifiers import InstanceName
from mirror.ports import Watch

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of this instance. `incarnation` distinguishes this process from all others with its name."""

    name: InstanceName
    host: str
    process_id: int
    rest_address: str
    weight: float = 1.0
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))


class OwnMembership:
    """Joins and leaves. `me`: membership of this instance; None while it has not joined."""

    def __init__(self, members: Membership, identity: Identity) -> None:
        self._members = members
        self._identity = identity
        self.me: LiveInstance | None = None
        self._awaited = ""

    def join(self, watch: Watch) -> str:
        """Join the live instances, unless another process has the same name.

        Returns the reason for waiting, if known. `watch` is called, from any thread, when an instance joins
        or leaves. Raises HeadraceError if the store fails.
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
        """Discard the membership, which may have ended with the session."""
        self.me = None
        self._members.look_again()

    def begin_to_leave(self, me: LiveInstance) -> bool:
        """Publish that this instance leaves. Return whether another instance stays, which can take tasks."""
        self._members.begin_to_leave(me)
        return any(not instance.is_leaving for instance in self._members.live())

    def leave(self, me: LiveInstance) -> None:
        """Leave the live instances. Raises HeadraceError."""
        self._members.leave(me)


def _awaited(others: Sequence[LiveInstance]) -> str:
    """Return the reason to wait for live instances with the name of this one, or an empty string."""
    if not others:
        return ""
    other = others[0]
    return (
        f"waiting for another instance named {other.name} to leave: process {other.process_id} on"
        f" {other.host}, REST at {other.rest_address}; if it still runs, stop it or set a different"
        " mirror.instance_name"
    )
