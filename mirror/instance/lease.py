"""How long an instance may believe that its session lives, by its own clock.

ZooKeeper ends a session that was silent for the session timeout. The last request that was answered
was sent at `last_contact()`, so the session lives at least until that moment plus the timeout; the
lease ends earlier, so that our workers have stopped before anybody else may start.
"""

from __future__ import annotations

from typing import Final, Protocol

SHARE: Final = 0.7
"""Of the session timeout."""


class Contact(Protocol):
    """What a session knows of its server."""

    def session_timeout_seconds(self) -> float:
        """What the server granted, which may be less than what was asked for."""
        ...

    def last_contact(self) -> float:
        """When the newest request that was answered had been sent (monotonic clock, seconds)."""
        ...

    def beat(self) -> None:
        """Ask for a sign of life without waiting for it."""
        ...

    def answer_seconds(self) -> float:
        """How long an answer takes now."""
        ...


class Lease:
    """Times are those of the monotonic clock, in seconds; workers on this machine share it."""

    def __init__(self, contact: Contact) -> None:
        self._contact = contact

    def renew(self) -> None:
        """Ask for a contact, which moves the end."""
        self._contact.beat()

    @property
    def answer_seconds(self) -> float:
        """How long ZooKeeper takes to answer."""
        return self._contact.answer_seconds()

    def ends_at(self) -> float:
        """When it ends if ZooKeeper never answers again."""
        return self._contact.last_contact() + self._contact.session_timeout_seconds() * SHARE

    def is_over(self, now: float) -> bool:
        """Whether everything must be given up."""
        return now >= self.ends_at()
