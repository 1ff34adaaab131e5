"""Detects sessions that have sent no heartbeat for their timeout. Pure.

Times are monotonic seconds of the observer.

The observer sees a heartbeat only after it was sent. Therefore, it never ends a session within one timeout
after the last heartbeat was sent. By then, the owner of the session has already stopped by its own clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.coordination.store.commands import EndSession
from mirror.coordination.store.machine import SessionRecord


class SilenceObserver:
    """Observes the heartbeats of all other sessions.

    `timeout_seconds`: timeout of sessions that specify none.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._seen: dict[str, tuple[int, float, float]] = {}
        self._unheard: set[str] = set()

    def observe(self, sessions: Mapping[str, SessionRecord], own: str, now: float) -> None:
        """Record the sessions of a newly read state."""
        seen = {}
        for name, session in sessions.items():
            if name == own:
                continue
            heartbeat, at, _ = self._seen.get(name, (None, now, 0.0))
            timeout = session.timeout_ms / 1000 or self._timeout_seconds
            seen[name] = session.heartbeat, at if heartbeat == session.heartbeat else now, timeout
            if name not in self._seen:
                self._unheard.add(name)
            elif heartbeat != session.heartbeat:
                self._unheard.discard(name)
        self._seen = seen
        self._unheard &= seen.keys()

    @property
    def unheard(self) -> int:
        """Number of sessions without a new heartbeat since they were first observed."""
        return len(self._unheard)

    @property
    def longest_timeout(self) -> float:
        """Longest timeout of an observed session in seconds, or 0."""
        return max((timeout for _, _, timeout in self._seen.values()), default=0.0)

    def restart(self, now: float) -> None:
        """Restart the timeout of every session.

        Call this after an outage of the log, during which no heartbeat could arrive.
        """
        self._seen = {name: (heartbeat, now, timeout) for name, (heartbeat, _, timeout) in self._seen.items()}

    def silent(self, now: float) -> list[EndSession]:
        """Return a command for each session that has sent no heartbeat for its timeout."""
        return [
            EndSession(name, heartbeat)
            for name, (heartbeat, at, timeout) in sorted(self._seen.items())
            if now - at >= timeout
        ]
