"""Detects sessions that have sent no heartbeat for their timeout. Pure; times are monotonic seconds of the
observer.

An observer sees a heartbeat after it was sent. The observer therefore never ends a session earlier than one
timeout after the send time of the last heartbeat. At that time, the owner of the session has already stopped
according to its own clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.coordination.store.commands import EndSession
from mirror.coordination.store.machine import SessionRecord


class SilenceObserver:
    """Observes the heartbeats of all sessions except its own. `timeout_seconds`: timeout of sessions that
    specify no timeout."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._seen: dict[str, tuple[int, float, float]] = {}
        self._unheard: set[str] = set()

    def observe(self, sessions: Mapping[str, SessionRecord], own: str, now: float) -> None:
        """Record the sessions of the state that was just read."""
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
        """Longest timeout of an observed session in seconds, 0 if there is none."""
        return max((timeout for _, _, timeout in self._seen.values()), default=0.0)

    def restart(self, now: float) -> None:
        """Restart the timeout of every session, because no heartbeat could arrive while the log was
        unavailable."""
        self._seen = {name: (heartbeat, now, timeout) for name, (heartbeat, _, timeout) in self._seen.items()}

    def silent(self, now: float) -> list[EndSession]:
        """Return a command for each session that has sent no heartbeat for its timeout."""
        return [
            EndSession(name, heartbeat)
            for name, (heartbeat, at, timeout) in sorted(self._seen.items())
            if now - at >= timeout
        ]
