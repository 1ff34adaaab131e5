"""Watches the connections to the brokers of one cluster: timeouts, unresponsive and removed brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from math import inf
from typing import Final

from mirror.client.brokers.connections import BrokerConnections
from mirror.client.brokers.directory import BrokerDirectory
from mirror.client.event_loop import Loop
from mirror.errors import HeadraceError, Unreachable
from mirror.loggers import get_logger
from mirror.model.clusters import address_of

_log = get_logger(__name__)
_SWEEP_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0
"""Seconds of silence until another broker is queried for the list of brokers, and between such queries."""


class BrokerWatch:
    """Checks every connection twice a second until the connections are closed. `list_brokers`: function that
    requests the list of brokers from a broker."""

    def __init__(
        self,
        loop: Loop,
        cluster: str,
        directory: BrokerDirectory,
        connections: BrokerConnections,
        list_brokers: Callable[[int], Awaitable[None]],
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._directory = directory
        self._connections = connections
        self._list_brokers = list_brokers
        self.silent_since = inf
        """Due time of the oldest outstanding response, or of the first late response of a slow broker."""
        self.silence = ""
        """Description of the broker behind `silent_since` and of its delay."""
        self._looked_at = -inf
        loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        connections = self._connections
        if connections.is_closed:
            return
        now = self._loop.now()
        waiting: dict[str, tuple[float, str]] = {}
        heard: dict[str, float] = {}
        for place, connection in list(connections.known.items()):
            connection.check_deadline(now)
            if not connection.is_open:
                continue
            if connection.is_overdue(now):
                connections.probe(place, connection, self._directory.endpoint(place[0]))
            found = connection.silence(now)
            waiting[connection.name] = min(found, waiting.get(connection.name, found))
            heard[connection.name] = max(connection.reader.received_at, heard.get(connection.name, -inf))
        connections.reachability.swept(waiting, now, heard)
        self.silent_since, silence = connections.reachability.silence(waiting, now)
        self.silence = f"cluster {self._cluster}: {silence}"
        late = {name for name, (since, _) in waiting.items() if now - since >= _LOOK_SECONDS}
        self._close_departed(late)
        if late - self._directory.departed and now - self._looked_at >= _LOOK_SECONDS:
            self._loop.spawn(self._look_for_departures(late, waiting.keys() - late))
        self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _close_departed(self, late: Set[str]) -> None:
        departed = late & self._directory.departed
        for connection in [known for known in self._connections.known.values() if known.name in departed]:
            reason = f"{connection.name} is no longer a broker of cluster {self._cluster}"
            connection.close(Unreachable(reason))

    async def _look_for_departures(self, late: Set[str], prompt: Set[str]) -> None:
        """Find out from another broker whether the cluster still lists the silent brokers. The cluster does
        not list a frozen broker, whose partitions have other leaders. `prompt`: addresses to try first."""
        self._looked_at = inf
        others = {address_of(*where): broker for broker, where in self._directory.brokers.items()}
        for name in sorted(others.keys() - late, key=lambda name: name not in prompt):
            try:
                await self._list_brokers(others[name])
                break
            except HeadraceError as error:
                _log.debug("cannot list brokers", cluster=self._cluster, reason=str(error))
        self._looked_at = self._loop.now()
