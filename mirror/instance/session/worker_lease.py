"""Lease of the workers: extended with each contact of the coordination session."""

from __future__ import annotations

from mirror.instance.session.lease import Lease
from mirror.instance.workers.supervisor import Supervisor
from mirror.ports import Clock


class WorkerLease:
    """Extends the lease of the workers up to the end of the instance's lease.

    After the end of a session, the last contact may belong to the next session. The lease is therefore not
    extended from the end of a session until the follower has handled that end.
    """

    def __init__(self, lease: Lease, supervisor: Supervisor, clock: Clock) -> None:
        self._lease = lease
        self._supervisor = supervisor
        self._clock = clock
        self._losses = self._losses_handled = 0

    @property
    def is_over(self) -> bool:
        """True if the instance's lease has ended, so that all lanes must stop."""
        return self._lease.is_over(self._clock.monotonic())

    @property
    def answer_seconds(self) -> float:
        """Current response time of the coordination store."""
        return self._lease.answer_seconds

    def session_lost(self) -> None:
        """Note the end of the session. Called from the thread of the coordination client, before the next
        session makes contact."""
        self._losses += 1

    def loss_handled(self) -> None:
        """Note that the follower has given up the lanes of an ended session."""
        self._losses_handled += 1

    def extend(self, *, is_member: bool) -> None:
        """Send a heartbeat, and extend the lease of the workers according to the last contact."""
        self._lease.renew()
        until = self._lease.ends_at()
        if is_member and self._losses == self._losses_handled:
            self._supervisor.extend_lease(until)
