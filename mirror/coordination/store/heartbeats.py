"""Sends heartbeats of this process's session through a shared log, and detects other sessions whose
heartbeats have stopped. Pure.

Times are monotonic seconds of this process.

Another instance ends a session only if it has read no heartbeat for one timeout. It sees a heartbeat only
after it was sent. Therefore, a session stays open for at least one timeout after its process sent the last
heartbeat that it has read back, and the owner of an ended session has already stopped by its own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.coordination.store.commands import EndSession
from mirror.coordination.store.machine import SessionRecord
from mirror.model.nodes import SessionState

HEARTBEATS: Final = 3
"""Number of heartbeats sent per session timeout."""
_SUSPENDED_SHARE: Final = 2 / 3
"""Share of the session timeout without a heartbeat read back, after which the session is suspended."""
_MOST_PENDING: Final = 2
"""Maximum number of heartbeats that were sent but not yet read back from the log."""


class SessionContact:
    """Send times of the heartbeats of one session, and the latest heartbeat that was read back from the log.

    The command that opens the session counts as heartbeat 0. `sent`: send time of this command.
    """

    def __init__(self, timeout_seconds: float, sent: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._sent = {0: sent}
        self._latest_sent = sent
        self._number = 0
        self.answered_at = sent
        """Send time of the latest heartbeat that was read back."""
        self.answer_seconds = 0.0
        """Round-trip time of the latest heartbeat that was read back, in seconds."""

    def next_heartbeat(self, now: float) -> int | None:
        """Return the number of the heartbeat to send now, or None if no heartbeat is due."""
        is_due = now - self._latest_sent >= self._timeout_seconds / HEARTBEATS
        return self.send(now) if is_due and len(self._sent) < _MOST_PENDING else None

    def send(self, now: float) -> int:
        """Return the number of the next heartbeat, which is sent now."""
        self._number += 1
        self._latest_sent = now
        self._sent = {**self._sent, self._number: now}
        return self._number

    def read_back(self, number: int, now: float) -> None:
        """Handle a heartbeat that was read back from the log. It also confirms all earlier heartbeats."""
        sent = self._sent.get(number)
        if sent is not None:
            self.answered_at, self.answer_seconds = sent, now - sent
        self._sent = {sent_number: at for sent_number, at in self._sent.items() if sent_number > number}

    def waited_seconds(self, now: float) -> float:
        """Return the age of the oldest heartbeat that was not read back, in seconds; 0 if there is none."""
        return now - min(self._sent.values(), default=now)

    def state(self, now: float) -> SessionState:
        """Return the state of the session, such as suspended or lost. A lost session remains lost."""
        silence = now - self.answered_at
        if silence >= self._timeout_seconds:
            return SessionState.LOST
        return (
            SessionState.SUSPENDED
            if silence >= self._timeout_seconds * _SUSPENDED_SHARE
            else SessionState.CONNECTED
        )


class SilenceObserver:
    """Measures the time since the last heartbeat of every other session.

    `timeout_seconds`: timeout of sessions that specify none.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._seen: dict[str, tuple[int, float, float]] = {}
        self._unheard: set[str] = set()

    def observe(self, sessions: Mapping[str, SessionRecord], own: str, now: float) -> None:
        """Compare the heartbeats in a new state of the log with those seen before."""
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
        """Number of other sessions from which this process has not seen a new heartbeat yet."""
        return len(self._unheard)

    @property
    def longest_timeout(self) -> float:
        """Longest timeout of an observed session in seconds, or 0."""
        return max((timeout for _, _, timeout in self._seen.values()), default=0.0)

    def restart(self, now: float) -> None:
        """Restart the timeout of every session, after an outage in which no heartbeat could arrive."""
        self._seen = {name: (heartbeat, now, timeout) for name, (heartbeat, _, timeout) in self._seen.items()}

    def silent(self, now: float) -> list[EndSession]:
        """Return a command for each session that has sent no heartbeat for its timeout."""
        return [
            EndSession(name, heartbeat)
            for name, (heartbeat, at, timeout) in sorted(self._seen.items())
            if now - at >= timeout
        ]
