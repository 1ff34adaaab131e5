"""Connections to one cluster that are open only while they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from mirror.client.access import ClusterAccess
from mirror.client.cluster import CONTROL, Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise, Timer
from mirror.client.handshake import ConnectionConfig, ConnectionConfigs
from mirror.errors import HeadraceError, TimedOut, Unreachable
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool
from mirror.model.bounds import REACH_SECONDS
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint
from mirror.wording import first_few

_HEAD_START_SECONDS: Final = 0.25
"""Seconds after which the next address is tried while the previous attempt continues."""
_ADVICE_LISTENERS: Final = (
    "check advertised.listeners of the brokers, the name service, and firewalls on the way from this host"
)
_SHOWN: Final = 3
_ADVICE: Final = "check that a Kafka broker listens there, and whether the port requires TLS or SASL"


async def first_answer(loop: Loop, cluster: Cluster, seconds: float) -> None:
    """Open a connection to any broker and wait for its response. The connection remains open.

    Raises Unreachable if no address accepts a connection, TimedOut if no broker responds in time, and
    NotAuthorized if a broker rejects the credentials.
    """
    await _Race(loop, cluster, cluster.directory.addresses).run(seconds)


async def first_listener(loop: Loop, cluster: Cluster, seconds: float) -> None:
    """Wait until a broker has responded at an address that the cluster advertises.

    For a cluster whose bootstrap servers respond. Every further request goes to an advertised address. Closes
    the connections to the cluster if none responds.

    Raises Unreachable, TimedOut and NotAuthorized as `first_answer`, with the advertised addresses.
    """
    until, addresses = loop.now() + seconds, cluster.directory.addresses
    answered = {where for broker, where in addresses.items() if cluster.is_open(broker)}
    await _listed(loop, cluster, seconds)
    listed = cluster.directory.brokers
    if not listed or not answered.isdisjoint(listed.values()):
        return
    try:
        await _Race(loop, cluster, listed).run(until - loop.now())
    except HeadraceError as error:
        cluster.connections.disconnect()
        names = first_few([address_of(*where) for where in listed.values()], _SHOWN)
        raise type(error)(
            f"{cluster.name} responds at {', '.join(address_of(*where) for where in sorted(answered))},"
            f" but not at the addresses that its brokers advertise ({names}): {error.message}",
            advice=_ADVICE_LISTENERS,
        ) from error


async def _listed(loop: Loop, cluster: Cluster, seconds: float) -> None:
    """List the brokers of the cluster. Raises TimedOut if this takes longer than `seconds`."""
    listing = loop.spawn(cluster.patiently(lambda: cluster.refresh(()), seconds))
    either = Promise[None]()
    timer = loop.call_later(seconds, lambda: either.resolve(None))
    listing.when_done(lambda: either.resolve(None))
    try:
        await either
    finally:
        timer.cancel()
    if not listing.is_done:
        cluster.connections.disconnect()
        raise TimedOut(f"{cluster.name} accepts connections but does not list its brokers", advice=_ADVICE)
    listing.result()


class _Race:
    """Concurrent connection attempts to one cluster. A slow attempt continues while the next one starts.
    `addresses`: by broker id."""

    def __init__(self, loop: Loop, cluster: Cluster, addresses: Mapping[int, Endpoint]) -> None:
        self.first = Promise[None]()
        self.left = deque(addresses)
        self._loop = loop
        self._cluster = cluster
        self._addresses = addresses
        self._silent: dict[int, None] = {}
        self._failures: list[HeadraceError] = []

    async def run(self, seconds: float) -> None:
        """Wait until a broker has responded. Raises the errors of the attempts, and TimedOut after
        `seconds`."""
        timer = self._loop.call_later(seconds, lambda: self.give_up(seconds))
        try:
            self.dial()
            await self.first
        finally:
            timer.cancel()
            self.left.clear()

    def dial(self) -> None:
        """Start a connection attempt to the next address."""
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
        names = ", ".join(address_of(*self._addresses[broker]) for broker in self._silent)
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
    """Combine several errors into one. It is permanent if any of the errors is permanent."""
    if not failures:
        return Unreachable(f"no broker address of {name} is known")
    worst = next((failure for failure in failures if not failure.retriable), failures[-1])
    message = "; ".join(dict.fromkeys(failure.message for failure in failures))
    return type(worst)(message, advice=worst.advice)


_T = TypeVar("_T")
REQUEST_SECONDS: Final = 10.0
"""Timeout of one request, and of all attempts of one call, in seconds."""
_IDLE_SECONDS: Final = 60.0
_MOMENT_SECONDS: Final = 1.0
"""Maximum seconds to wait for another call's connection attempt, and minimum pause after a failed attempt."""
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5
_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""Memory for the responses of one cluster, in bytes.

Each cluster has its own memory, because a cluster that stalls within a response keeps the memory occupied.
"""


class ClusterSession:
    """Session with one cluster. The session opens with the first call, and closes after a minute without
    calls.

    Use only on the event loop's thread. `access`: called each time the session opens. `request_seconds`: see
    `REQUEST_SECONDS`.
    """

    def __init__(
        self,
        name: str,
        client_id: str,
        access: Callable[[], ClusterAccess],
        *,
        request_seconds: float = REQUEST_SECONDS,
        reach_seconds: float = REACH_SECONDS,
    ) -> None:
        self._name = name
        self._client_id = client_id
        self._access = access
        self._request_seconds = request_seconds
        self._reach_seconds = reach_seconds
        self._cluster: Cluster | None = None
        self._under_way = 0
        self._requested_at = -inf
        self._reaching: Promise[None] | None = None
        self._failure: HeadraceError | None = None
        self._failed_at = -inf
        self._timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        """True if connections may be open."""
        return self._cluster is not None

    async def ask(
        self, loop: Loop, question: Callable[[Cluster], Coroutine[Any, Any, _T]], seconds: float | None = None
    ) -> _T:
        """Run a call on the cluster, with retries until it succeeds, fails permanently, or times out.

        `seconds`: time for which the caller waits; None if it waits for every attempt. With this time, the
        call is repeated only if an attempt as long as the last one would end in time, so that the caller gets
        the error of the last attempt. Raises the errors of the call. Raises at once if no broker is
        reachable.
        """
        until, pause = loop.now() + min(self._request_seconds, seconds or inf), _FIRST_BACKOFF
        self._under_way += 1
        try:
            while True:
                began = loop.now()
                cluster = await self.reached(loop)
                try:
                    return await question(cluster)
                except HeadraceError as error:
                    if isinstance(error, Unreachable):
                        self._failure = copy(error)
                    took = 0.0 if seconds is None else loop.now() - began
                    if not error.retriable or loop.now() + pause + took > until:
                        raise
                await loop.sleep(pause)
                pause = min(pause * 2, _LONGEST_BACKOFF)
        finally:
            self._under_way -= 1
            self._requested_at = loop.now()

    async def reached(self, loop: Loop) -> Cluster:
        """Return the cluster as soon as a broker responds. Raises Unreachable, NotAuthorized.

        If the last connection attempt failed, only one caller waits for the next attempt; other callers get
        the last error.
        """
        cluster, failure = self._opened(loop), self._failure
        if cluster.connections.any_open(CONTROL) is not None:
            self._failure = None
            return cluster
        if failure is not None and loop.now() - self._failed_at < _MOMENT_SECONDS:
            raise copy(failure)
        if self._reaching is None:
            reaching = loop.spawn(self._reach(loop, cluster))
            self._reaching = None if reaching.is_done else reaching
            await reaching
        elif failure is not None:
            raise copy(failure)
        else:
            await self._follow(loop, self._reaching)
        return cluster

    async def _follow(self, loop: Loop, reaching: Promise[None]) -> None:
        moment = loop.sleep(_MOMENT_SECONDS)
        either = Promise[None]()
        for promise in (reaching, moment):
            promise.when_done(lambda: either.resolve(None))
        await either
        if not reaching.is_done:
            raise TimedOut(f"{self._name}: no response yet")
        reaching.result()

    async def _reach(self, loop: Loop, cluster: Cluster) -> None:
        try:
            await first_answer(loop, cluster, self._reach_seconds)
            self._failure = None
        except HeadraceError as error:
            # Copy without the traceback, which refers to the previous failure.
            self._failure, self._failed_at = copy(error), loop.now()
            raise
        finally:
            self._reaching = None

    def close(self) -> None:
        """Close every connection; the next call opens new connections. Idempotent."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
        if self._timer is not None:
            self._timer.cancel()

    def _opened(self, loop: Loop) -> Cluster:
        if self._cluster is None:
            pool = BufferPool(0, ByteBudget(_BUFFER_BYTES))  # keeps no buffers
            config = ConnectionConfig(loop, pool, self._access(), self._client_id, self._request_seconds)
            self._cluster = Cluster(ConnectionConfigs.of_one(config), self._name)
            self._timer = loop.call_later(_IDLE_SECONDS, lambda: self._close_if_idle(loop))
        return self._cluster

    def _close_if_idle(self, loop: Loop) -> None:
        """Close the connections if the session is idle, otherwise check again later."""
        idle_at = inf if self._under_way else self._requested_at + _IDLE_SECONDS
        if loop.now() >= idle_at:
            self.close()
        else:
            wait = min(idle_at - loop.now(), _IDLE_SECONDS)
            self._timer = loop.call_later(wait, lambda: self._close_if_idle(loop))
