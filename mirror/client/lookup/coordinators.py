"""Finds and caches coordinators of groups and transactional ids."""

from __future__ import annotations

from typing import Final, Protocol

from mirror.client.connection import Connection
from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError
from mirror.protocol.control.cluster import GROUP, MANY_COORDINATORS_FROM, Endpoint, find_coordinators

_AT_ONCE: Final = 100


class Brokers(Protocol):
    """Access to the brokers of a cluster; see `Cluster`."""

    brokers: dict[int, Endpoint]

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

    def error(self, code: int, doing: str, right: str, message: str = "") -> HeadraceError:
        """Return the error for an error code."""
        ...


class Coordinators:
    """Cache of coordinators.

    The keys consist of a kind (group or transactional id) and a name.
    """

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._known: dict[tuple[int, str], int] = {}
        self._sought: dict[int, set[str]] = {}
        self._seeking: dict[int, Promise[None]] = {}

    def forget(self) -> None:
        """Drop all coordinators."""
        self._known = {}

    def forget_one(self, kind: int, key: str) -> None:
        """Drop a coordinator that has moved, so that the next call looks it up."""
        self._known.pop((kind, key), None)

    async def find(self, kind: int, key: str) -> int:
        """Return the broker id of a coordinator. Raises Unreachable, NotAuthorized.

        Concurrent lookups are combined.
        """
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
            found = await connection.call(call, cluster.timeout_seconds)
            for key, coordinator in found.items():
                if coordinator.error:
                    right = f"Describe on {'group' if kind == GROUP else 'transactional id'} {key}"
                    raise cluster.error(coordinator.error, f"cannot find the coordinator of {key}", right)
                cluster.brokers.setdefault(coordinator.node, coordinator.endpoint)
                self._known[kind, key] = coordinator.node
            missing = [key for key in missing if key not in found]
