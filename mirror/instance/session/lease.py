"""Lease: time until which an instance may assume, by its own clock, that its coordination session is alive.

The store ends a session that was silent for the session timeout. The last request with a response was sent at
`last_contact()`, so the session lives at least until that time plus the timeout. The lease ends before the
session, so that the workers of this instance have stopped before another instance may start the lanes.
"""

from __future__ import annotations

from typing import Final, Protocol

SHARE: Final = 0.7
"""Length of the lease as a share of the session timeout."""


class Contact(Protocol):
    """Times of the last contact of a session with its server."""

    def session_timeout_seconds(self) -> float:
        """Return the timeout granted by the server, which may be less than requested."""
        ...

    def last_contact(self) -> float:
        """Return when the last request with a response was sent (monotonic seconds)."""
        ...

    def beat(self) -> None:
        """Send a heartbeat without waiting for the response."""
        ...

    def answer_seconds(self) -> float:
        """Return the current response time of the store in seconds."""
        ...


class Lease:
    """Lease of an instance. Times are monotonic seconds; workers on this machine share the clock."""

    def __init__(self, contact: Contact) -> None:
        self._contact = contact

    def renew(self) -> None:
        """Send a heartbeat; its response extends the lease."""
        self._contact.beat()

    @property
    def answer_seconds(self) -> float:
        """Current response time of the store."""
        return self._contact.answer_seconds()

    def ends_at(self) -> float:
        """Return the time at which the lease ends if the store never responds again."""
        return self._contact.last_contact() + self._contact.session_timeout_seconds() * SHARE

    def is_over(self, now: float) -> bool:
        """Return whether the lease has ended, so that all lanes must stop."""
        return now >= self.ends_at()
