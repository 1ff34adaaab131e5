"""Finds and caches the coordinators of groups and transactional ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from mirror.client.brokers.directory import BrokerDirectory
from mirror.client.calls import make_call
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, Unreachable
from mirror.protocol.codes import COORDINATOR_MOVED, TRANSIENT
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import GROUP, MANY_COORDINATORS_FROM, Coordinator, find_coordinators

T = TypeVar("T")

COORDINATE: Final = "coordinate"
"""Role of a separate connection to coordinators, whose responses may wait for replication."""
_AT_ONCE: Final = 100


class Brokers(Protocol):
    """Interface to the brokers of a cluster, for the coordinator cache. Implemented by `Cluster`."""

    directory: BrokerDirectory

    @property
    def loop(self) -> Loop:
        """Event loop of the cluster."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """Timeout of one request."""
        ...

    async def any_connection(self) -> Connection:
        """Connect to any broker."""
        ...

    async def ask(self, call: Call[T], broker: int | None = None, role: str = "") -> T:
        """Send a request to a broker."""
        ...

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry the coroutine `attempt` until it succeeds, fails permanently or times out."""
        ...

    def error(self, code: int, doing: str, right: str, message: str = "") -> HeadraceError:
        """Return the exception for an error code."""
        ...


class Coordinators:
    """Cache of the coordinators of groups and transactional ids."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, str], int] = {}
        self._sought: dict[int, dict[str, Promise[int]]] = {}
        """For each kind (group or transactional id), names whose coordinators the next lookup requests."""

    def forget(self) -> None:
        """Drop all cached coordinators."""
        self._known = {}

    def _forget_one(self, kind: int, key: str) -> None:
        """Drop a coordinator from the cache after it has moved, so that the next call finds the new one."""
        self._known.pop((kind, key), None)

    async def ask(self, kind: int, key: str, call: Call[T], error: Callable[[T], int]) -> T:
        """Send a request to the coordinator of a group or transactional id. Retries while the coordinator
        moves or loads. `error`: function that returns the error code of a response."""
        return await self._cluster.patiently(lambda: self.ask_once(kind, key, call, error))

    async def ask_once(
        self, kind: int, key: str, call: Call[T], error: Callable[[T], int], role: str = COORDINATE
    ) -> T:
        """Send a request to a coordinator once. Raises Unreachable if a retry may help."""
        try:
            answer = await self._cluster.ask(call, await self.find(kind, key), role)
        except Unreachable:
            self._forget_one(kind, key)
            raise
        if (code := error(answer)) in COORDINATOR_MOVED:
            self._forget_one(kind, key)
        if code in TRANSIENT:
            raise self._cluster.error(code, f"{call.name} request to the coordinator of {key} failed", "")
        return answer

    async def find(self, kind: int, key: str) -> int:
        """Return the broker id of a coordinator. Raises Unreachable, NotAuthorized.

        Concurrent calls share a request. An error of one name does not affect the others.
        """
        known = self._known.get((kind, key))
        if known is not None:
            return known
        sought = self._sought.setdefault(kind, {})
        if not sought:
            self._cluster.loop.spawn(self._seek(kind))
        return await sought.setdefault(key, Promise())

    async def _seek(self, kind: int) -> None:
        await self._cluster.loop.sleep(0.0)
        sought = self._sought.pop(kind)
        try:
            await self._look_up(kind, sought)
        except HeadraceError as error:
            for promise in sought.values():
                promise.fail(error)

    async def _look_up(self, kind: int, sought: Mapping[str, Promise[int]]) -> None:
        cluster, missing = self._cluster, sorted(sought)
        while missing:
            connection = await cluster.any_connection()
            call = find_coordinators(kind, asked := missing[:_AT_ONCE])
            if call.choose(connection.features.versions.get(call.api)) < MANY_COORDINATORS_FROM:
                call = find_coordinators(kind, asked := missing[:1])
            found = await make_call(connection, call, cluster.timeout_seconds)
            missing = missing[len(asked) :]
            for key in asked:
                try:
                    sought[key].resolve(self._learn(kind, key, found.get(key)))
                except HeadraceError as error:
                    sought[key].fail(error)

    def _learn(self, kind: int, key: str, found: Coordinator | None) -> int:
        cluster = self._cluster
        if found is None:
            raise Unreachable(f"the broker's response does not name the coordinator of {key}")
        if found.error:
            right = f"Describe on {'group' if kind == GROUP else 'transactional id'} {key}"
            raise cluster.error(found.error, f"cannot find the coordinator of {key}", right)
        if found.node not in cluster.directory.brokers:
            cluster.directory.add(found.node, found.endpoint)
        self._known[kind, key] = found.node
        return found.node
