"""Connections to the brokers of one cluster."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from typing import Final

from mirror.client.brokers.reachability import Reachability
from mirror.client.calls import make_call
from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.handshake import ConnectionConfig, ConnectionConfigs, open_connection
from mirror.client.promptness import PATIENCE_SECONDS
from mirror.client.sockets import reset_on_close
from mirror.errors import HeadraceError, TimedOut, UnexpectedCluster, Unreachable
from mirror.loggers import get_logger
from mirror.protocol.control.cluster import Endpoint, metadata

_log = get_logger(__name__)
_STEADY_SECONDS: Final = 0.5
"""Minimum seconds between connections of a role, because a broker may close each at its first request."""

Place = tuple[int, str]
"""Broker id and role of a connection."""


class BrokerConnections:
    """Connections to the brokers of one cluster, one for each broker and role. `known`: connections,
    including closed ones. `pinned`: id of the accepted cluster; empty for any cluster. `reachability`:
    results of connection attempts.
    """

    def __init__(self, configs: ConnectionConfigs, cluster: str) -> None:
        self._configs = configs
        self._cluster = cluster
        self._loop = configs.aside.loop
        self.reachability = Reachability(cluster)
        self.pinned = ""
        self.is_closed = False
        self.known: dict[Place, Connection] = {}
        self._opening: dict[Place, Promise[Connection]] = {}
        self._opened_at: dict[Place, float] = {}
        self._probed_at: dict[Place, float] = {}

    def any_open(self, role: str) -> Connection | None:
        """Return an open connection to any broker for this role, or None."""
        for (_, known), connection in self.known.items():
            if known == role and connection.is_open:
                return connection
        return None

    async def connect(self, place: Place, endpoint: Endpoint | None) -> Connection:
        """Open a connection to a broker. Concurrent callers share one attempt. `endpoint`: None if unknown.
        Raises Unreachable, and the errors of `open_connection`."""
        opening = self._opening.get(place)
        if opening is None:
            if endpoint is None:
                raise Unreachable(f"{self._cluster} has no broker {place[0]}")
            self._configs.aside.access.check(endpoint)
            opening = self._loop.spawn(self._open(place, endpoint))
            self._opening[place] = opening
            opening.when_done(lambda: self._opening.pop(place, None))
        return await opening

    async def _open(self, place: Place, endpoint: Endpoint) -> Connection:
        now = self._loop.now()
        steady_at = self._opened_at.get(place, -inf) + _STEADY_SECONDS
        wait = max(self.reachability.tries(endpoint, now), steady_at - now)
        if wait > 0:
            await self._loop.sleep(wait)
        try:
            connection = await self._checked(self._configs.for_role(place[1]), endpoint)
        except HeadraceError as error:
            self.reachability.failed(endpoint, error, self._loop.now())
            raise
        finally:
            self.reachability.ended(endpoint, self._loop.now())
        self._opened_at[place] = self._loop.now()
        self.reachability.opened(endpoint, self._opened_at[place])
        self.known[place] = connection
        if self.is_closed:
            connection.close()
        return connection

    async def _checked(self, config: ConnectionConfig, endpoint: Endpoint) -> Connection:
        connection = await open_connection(config, endpoint)
        with ExitStack() as undo:
            undo.callback(connection.close)
            if self.pinned:
                timeout = self._configs.aside.timeout_seconds
                self.check_cluster((await make_call(connection, metadata([]), timeout)).cluster_id)
            undo.pop_all()
        return connection

    def check_cluster(self, cluster_id: str) -> None:
        """Close every connection and raise UnexpectedCluster if a broker reports another cluster id."""
        if self.pinned and cluster_id != self.pinned:
            self.disconnect()
            raise UnexpectedCluster.at(self._cluster, self.pinned, cluster_id)

    def probe(self, place: Place, silent: Connection, endpoint: Endpoint | None) -> None:
        """Replace an unresponsive connection if the broker responds on a new one. Tries every few seconds.

        Its requests fail as after a reset, and their callers may repeat them. A control request is not lost
        while the broker's host acknowledges it, however slow the broker is; after the reset the kernel does
        not send it again, so a repeated end of a transaction does not end the next one, too.
        """
        if self._loop.now() - self._probed_at.get(place, -inf) >= PATIENCE_SECONDS:
            self._loop.spawn(self._replace(place, silent, endpoint))

    async def _replace(self, place: Place, silent: Connection, endpoint: Endpoint | None) -> None:
        self._probed_at[place] = inf
        try:
            if endpoint is None:
                return
            other = await self._checked(self._configs.for_role(place[1]), endpoint)
        except HeadraceError as error:
            cluster, address = self._cluster, silent.name
            _log.debug("broker is also silent here", cluster=cluster, address=address, reason=str(error))
            return
        finally:
            self._probed_at[place] = self._loop.now()
        now = self._loop.now()
        if self.is_closed or self.known.get(place) is not silent or not silent.is_overdue(now):
            other.close()
            return
        other.promptness.continue_from(silent.promptness, silent.unanswered_since, now)
        self.known[place], self._opened_at[place] = other, now
        reset_on_close(silent.transport.socket)
        silent.close(TimedOut(f"{silent.name} responds only on another connection"))

    def round_trip(self, broker: int) -> float:
        """Return the shortest round trip to the broker in seconds, or 0 if unknown."""
        found = [link.round_trip() for (node, _), link in self.known.items() if node == broker]
        return min([seconds for seconds in found if seconds > 0], default=0.0)

    def feature(self, name: str) -> int:
        """Return the finalised level of a cluster feature; 0 if the feature is not finalised."""
        for connection in self.known.values():
            if connection.is_open:
                return connection.features.features.get(name, 0)
        return 0

    def take_throttled(self) -> float:
        """Return the longest throttle time of a broker since the previous call, in seconds (KIP-219)."""
        return self._configs.aside.throttling.take(self._loop.now())

    def disconnect(self) -> None:
        """Close every connection of the cluster. Later requests open new ones."""
        connections, self.known = self.known, {}
        for connection in connections.values():
            connection.close()

    def close(self) -> None:
        """Close every connection of the cluster, and those that are being opened. Idempotent."""
        self.is_closed = True
        self.disconnect()
