"""One running instance as a service: started in order, stopped in reverse, also after half a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mirror.instance.follower import Follower
from mirror.instance.health import Health
from mirror.instance.leader import Leader


class CoordinationSession(Protocol):
    """The session that everything shared hangs on."""

    def start(self) -> None:
        """Connect. Raises Unreachable."""
        ...

    def stop(self) -> None:
        """End it at once. Idempotent."""
        ...


class Instance:
    """Session, then follower, then leader. `prepare` runs once the session is up."""

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
        """Raises Unreachable, NewerFormat; what had started is stopped again."""
        try:
            self._session.start()
            self._started.append(lambda _: self._session.stop())
            self._prepare()
            self._follower.start()
            self._started.append(self._follower.stop)
            self._leader.start()
            self._started.append(self._leader.stop)
        except BaseException:
            self.stop(5.0)
            raise

    def stop(self, deadline_seconds: float) -> None:
        """Hand our tasks over, stop leading, drain what is left, end the session. Safe to call twice.

        Meanwhile we lead on if we do: somebody has to give our tasks away.
        """
        if self._started:
            self._follower.drain(deadline_seconds)
        while self._started:
            self._started.pop()(deadline_seconds)
