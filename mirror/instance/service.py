"""A running instance.

Components are started in order, and stopped in reverse order, even if only some were started.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from mirror.instance.follower import Follower
from mirror.instance.health import Health
from mirror.instance.leader import Leader


class CoordinationSession(Protocol):
    """Opens and closes the session with the coordination store."""

    def start(self) -> None:
        """Connect to the coordination store. Raises Unreachable."""
        ...

    def stop(self) -> None:
        """End the session with the coordination store at once. Idempotent."""
        ...


class Instance:
    """A running instance: its session, follower and leader, started in this order. `prepare`: called after
    connecting."""

    def __init__(
        self,
        session: CoordinationSession,
        prepare: Callable[[], None],
        follower: Follower,
        leader: Leader,
        health: Health,
    ) -> None:
        self._session = session
        self._prepare = prepare
        self._follower = follower
        self._leader = leader
        self.health = health
        self._started: list[Callable[[float], None]] = []

    def start(self) -> None:
        """Start all components. If one fails, stop those already started. Raises Unreachable, NewerFormat."""
        with ExitStack() as undo:
            undo.callback(self.stop, 5.0)
            self._session.start()
            self._started.append(lambda _: self._session.stop())
            self._prepare()
            self._follower.start()
            self._started.append(self._follower.stop)
            self._leader.start()
            self._started.append(self._leader.stop)
            undo.pop_all()

    def stop(self, deadline_seconds: float) -> None:
        """Move all tasks away, stop leading, drain the remaining lanes, and end the session. Safe to call
        twice. A leaving leader leads until its tasks have moved, because it must assign them."""
        if self._started:
            self._follower.drain(deadline_seconds)
        while self._started:
            self._started.pop()(deadline_seconds)
