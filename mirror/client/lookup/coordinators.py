"""Finds and caches the coordinators of groups and transactional ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from mirror.client.brokers.directory import BrokerDirectory
from mirror.client.calls import make_call
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, Unreachable
from mirror.protocol.codes import COORDINATOR_MOVED, TRANSIENT
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import GROUP, MANY_COORDINATORS_FROM, find_coordinators

T = TypeVar("T")

COORDINATE: Final = "coordinate"
"""Role of a separate connection to coordinators, whose responses may wait for replication."""
_AT_ONCE: Final = 100


class Brokers(Protocol):
    """Access to the brokers of a cluster; see `Cluster`."""

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
    """Cache of coordinators by kind (group or transactional id) and name."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, str], int] = {}
        self._sought: dict[int, set[str]] = {}
        self._seeking: dict[int, Promise[None]] = {}

    def forget(self) -> None:
        """Drop all coordinators."""
        self._known = {}

    def _forget_one(self, kind: int, key: str) -> None:
        """Drop a coordinator that has moved, so that the next call finds the new one."""
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
            raise self._cluster.error(code, f"{call.name} request to the coordinator of {key}", "")
        return answer

    async def find(self, kind: int, key: str) -> int:
        """Return the broker id of a group's or transactional id's coordinator. Raises Unreachable,
        NotAuthorized."""
        known = self._known.get((kind, key))
        if known is not None:
            return known
        self._sought.setdefault(kind, set()).add(key)
        if kind not in self._seeking:
            self._seeking[kind] = self._cluster.loop.spawn(self._seek(kind))
        await self._seeking[kind]
        return self._known[kind, key]

    async def _seek(self, kind: int) -> None:
        cluster = self._cluster
        await cluster.loop.sleep(0.0)
        del self._seeking[kind]
        missing = sorted(self._sought.pop(kind))
        while missing:
            connection = await cluster.any_connection()
            call = find_coordinators(kind, missing[:_AT_ONCE])
            if call.choose(connection.features.versions.get(call.api)) < MANY_COORDINATORS_FROM:
                call = find_coordinators(kind, missing[:1])
            found = await make_call(connection, call, cluster.timeout_seconds)
            for key, coordinator in found.items():
                if coordinator.error:
                    right = f"Describe on {'group' if kind == GROUP else 'transactional id'} {key}"
                    raise cluster.error(coordinator.error, f"cannot find the coordinator of {key}", right)
                if coordinator.node not in cluster.directory.brokers:
                    cluster.directory.add(coordinator.node, coordinator.endpoint)
                self._known[kind, key] = coordinator.node
            missing = [key for key in missing if key not in found]
