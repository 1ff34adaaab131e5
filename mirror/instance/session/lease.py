"""Lease: time until which an instance may assume that its coordination session is alive.

The store ends a session if it receives no request for the session timeout. `last_contact()` is the send time
of the last request with a response, so the session lives at least one timeout longer. The lease ends earlier,
so that the workers of this instance have stopped before another instance may start their lanes. All times are
measured with the clock of this machine.
"""

from __future__ import annotations

from typing import Final, Protocol

SHARE: Final = 0.7
"""Length of the lease as a share of the session timeout."""


class Contact(Protocol):
    """Contact of a session with its server."""

    def session_timeout_seconds(self) -> float:
        """Return the session timeout that the server granted. The granted timeout may be shorter than
        requested."""
        ...

    def last_contact(self) -> float:
        """Return the send time of the last request with a response (monotonic seconds)."""
        ...

    def beat(self) -> None:
        """Send a heartbeat without waiting for the response."""
        ...

    def answer_seconds(self) -> float:
        """Return the current response time of the store in seconds."""
        ...


class Lease:
    """Lease of an instance.

    Times are monotonic seconds. All processes of a machine share this clock.
    """

    def __init__(self, contact: Contact) -> None:
        self._contact = contact

    def renew(self) -> None:
        """Send a heartbeat. The response to the heartbeat extends the lease."""
        self._contact.beat()

    @property
    def answer_seconds(self) -> float:
        """Current response time of the store."""
        return self._contact.answer_seconds()

    def ends_at(self) -> float:
        """Return the end of the lease if the store never responds again."""
        return self._contact.last_contact() + self._contact.session_timeout_seconds() * SHARE

    def is_over(self, now: float) -> bool:
        """Return whether the lease has ended, so that all lanes must stop."""
        return now >= self.ends_at()
