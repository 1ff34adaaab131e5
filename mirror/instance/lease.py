"""How long an instance may believe that its session lives, by its own clock.

ZooKeeper ends a session that was silent for the session timeout. The last request that was answered
was sent at `last_contact()`, so the session lives at least until that moment plus the timeout; the
lease ends earlier, so that our workers have stopped before anybody else may start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SHARE: Final = 0.7
"""Of the session timeout."""


class Lease:
    """Times are those of the monotonic clock, in seconds; workers on this machine share it.

    `session_timeout_seconds`: what the server granted, which may be less than what was asked for.
    """

    def __init__(
        self, session_timeout_seconds: Callable[[], float], last_contact: Callable[[], float]
    ) -> None:
        self._session_timeout = session_timeout_seconds
        self._last_contact = last_contact

    def ends_at(self) -> float:
        """When it ends if ZooKeeper never answers again."""
        return self._last_contact() + self._session_timeout() * SHARE

    def is_over(self, now: float) -> bool:
        """Whether everything must be given up."""
        return now >= self.ends_at()
