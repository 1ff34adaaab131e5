"""Finds the first broker that responds, without waiting for unresponsive ones."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from mirror.client.cluster import CONTROL, Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, TimedOut, Unreachable

_HEAD_START_SECONDS: Final = 0.25
"""Seconds before the next address is tried concurrently."""
_ADVICE: Final = "check that a Kafka broker listens there, and whether the port requires TLS or SASL"


async def first_answer(loop: Loop, cluster: Cluster, seconds: float) -> None:
    """Wait until a broker has responded on a new connection, which remains open.

    Raises Unreachable if no address accepts a connection, TimedOut if no broker responds in time, and
    NotAuthorized if a broker rejects the credentials.
    """
    race = _Race(loop, cluster)
    timer = loop.call_later(seconds, lambda: race.give_up(seconds))
    try:
        race.dial()
        await race.first
    finally:
        timer.cancel()
        race.left.clear()


class _Race:
    """Concurrent connection attempts. A slow attempt continues while the next one starts."""

    def __init__(self, loop: Loop, cluster: Cluster) -> None:
        self.first = Promise[None]()
        self.left = deque(cluster.directory.addresses)
        self._loop = loop
        self._cluster = cluster
        self._silent: dict[int, None] = {}
        self._failures: list[HeadraceError] = []

    def dial(self) -> None:
        """Try the next address."""
        if self.first.is_done:
            return
        if not self.left:
            if not self._silent:
                self.first.fail(_all_of(self._failures, self._cluster.name))
            return
        broker = self.left.popleft()
        self._silent[broker] = None
        self._loop.call_later(_HEAD_START_SECONDS, self._dial_beside)
        opening = self._loop.spawn(self._cluster.connection(broker, CONTROL))
        opening.when_done(partial(self._ended, broker, opening))

    def give_up(self, seconds: float) -> None:
        """Fail with a TimedOut error that names the unresponsive addresses."""
        addresses = self._cluster.directory.addresses
        names = ", ".join("{}:{}".format(*addresses[broker]) for broker in self._silent)
        reasons = [
            f"{names}: no response within {seconds:.0f} s",
            *(failure.message for failure in self._failures),
        ]
        self.first.fail(TimedOut("; ".join(dict.fromkeys(reasons)), advice=_ADVICE))

    def _dial_beside(self) -> None:
        if self.left:
            self.dial()

    def _ended(self, broker: int, opening: Promise[Connection]) -> None:
        del self._silent[broker]
        try:
            opening.result()
        except HeadraceError as error:
            self._failures.append(error)
            self.dial()
        except Exception as error:  # noqa: BLE001 - raised by the coroutine that waits
            self.first.fail(error)
        else:
            self.first.resolve(None)


def _all_of(failures: list[HeadraceError], name: str) -> HeadraceError:
    """Combine several errors into one, which is permanent if any of them is permanent."""
    if not failures:
        return Unreachable(f"{name} has no addresses")
    worst = next((failure for failure in failures if not failure.retriable), failures[-1])
    message = "; ".join(dict.fromkeys(failure.message for failure in failures))
    return type(worst)(message, advice=worst.advice)
