"""Virtual time: a selector for the engine's loop that runs fake clusters in memory in the same thread.

When there is no work it advances the clock to the time of the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.memory import MemorySelector, Ready
from tests.fakes.clock import ManualClock

_MOST_ROUNDS: Final = 5_000
"""Maximum rounds without progress of time; a loop with more is spinning."""


class Killed(BaseException):
    """Raised to end the engine's process at any point."""


class VirtualSelector(MemorySelector):
    """Selector. `script` is called before time advances: it may change the clusters.

    It returns the time of its next call (monotonic seconds, or None for never).
    """

    def __init__(
        self,
        clock: ManualClock,
        clusters: Sequence[FakeCluster],
        script: Callable[[], float | None] | None = None,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._clusters = clusters
        self._script = script
        self._moment = clock.monotonic()
        self._rounds = 0
        self.rounds_to_live: int | None = None
        """Rounds of the loop until the engine is killed."""

    def select(self, timeout: float | None = None) -> Ready:
        """Return the ready sockets, after advancing time as needed by at most `timeout` seconds."""
        self._count_rounds()
        if self.rounds_to_live is not None:
            self.rounds_to_live -= 1
            if self.rounds_to_live < 0:
                raise Killed
        until = self._clock.monotonic() + (3600.0 if timeout is None else max(timeout, 0.0))
        while True:
            ready = super().select(0)
            if ready:
                return ready
            if self._run_clusters():
                continue
            following = None
            if self._script is not None:
                following = self._script()
                if self._run_clusters():
                    continue
            now = self._clock.monotonic()
            if now >= until:
                return []
            moments = [cluster.server.next_due for cluster in self._clusters] + [following, until]
            moment = min(one for one in moments if one is not None)
            self._clock.advance(max(moment - now, 0.0))
            if self._clock.monotonic() >= until:
                self._run_clusters()
                return super().select(0)

    def _count_rounds(self) -> None:
        now = self._clock.monotonic()
        self._rounds = self._rounds + 1 if now == self._moment else 0
        self._moment = now
        if self._rounds > _MOST_ROUNDS:
            asked = [request for cluster in self._clusters for request in cluster.server.requests[-3:]]
            shown = "; ".join(f"broker {one.broker}: api {one.api} {one.message}" for one in asked)
            raise AssertionError(f"loop is spinning: {_MOST_ROUNDS} rounds without progress of time: {shown}")

    def _run_clusters(self) -> bool:
        is_busy = False
        for cluster in self._clusters:
            while cluster.server.has_work and cluster.poll():
                is_busy = True
        return is_busy
