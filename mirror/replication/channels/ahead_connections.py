"""Additional connections for reading from a distant broker.

Connections are added while the rate rises. They are closed when no lane has a backlog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.connection import Connection
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import WindowLimit
from mirror.replication.channels.channel_rules import ChannelKey
from mirror.replication.channels.connection_count import ConnectionCount
from mirror.replication.channels.read_plan import OffsetRange

_log = get_logger(__name__)
_OPEN_RETRY_SECONDS: Final = 5.0


class AheadConnection:
    """A read-ahead connection, with the offset ranges requested on it in the order of the requests."""

    __slots__ = ("connection", "ranges")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ranges: deque[tuple[Lane, OffsetRange]] = deque()


class AheadConnections:
    """Opens and closes the read-ahead connections of one fetch channel.

    `most`: maximum number of connections. `on_change`: called after a connection has opened or closed, while
    at least one is open. `on_lost`: called when the last connection is lost.
    """

    def __init__(
        self,
        cluster: Cluster,
        broker: int,
        tier: ChannelKey,
        most: int,
        on_change: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._broker = broker
        self._tier = tier
        self._on_change = on_change
        self._on_lost = on_lost
        self._count = ConnectionCount(most)
        self._opening: set[int] = set()
        self._open_from = 0.0
        self._is_closed = False
        self.by_number: dict[int, AheadConnection] = {}
        """Maps connection numbers to open read-ahead connections."""

    @property
    def is_wanted(self) -> bool:
        """Return whether read-ahead connections are open or should be opened."""
        return self._count.count > 0

    def note(self, connection: Connection, size: int) -> None:
        """Register a large response of `size` bytes, and change the number of read-ahead connections if
        useful."""
        now = self._cluster.loop.now()
        before = self._count.count
        count = self._count.note(size, now, connection.round_trip())
        if count != before:
            cluster, broker = self._cluster.name, self._broker
            _log.info("additional connections changed", cluster=cluster, broker=broker, connections=count)
        if count < before:
            self._shrink(count)
        if count > len(self.by_number) + len(self._opening) and now >= self._open_from:
            for number in range(count):
                if number not in self.by_number and number not in self._opening:
                    self._opening.add(number)
                    self._cluster.loop.spawn(self._open(number))

    def close_unused(self, now: float) -> None:
        """Close all read-ahead connections after a period without use."""
        if self._count.is_unused(now):
            self._count.close()
            self._shrink(0)

    def close(self) -> None:
        """Close all read-ahead connections permanently."""
        self._is_closed = True
        self._shrink(0)

    def idle(self, depth: int) -> list[AheadConnection]:
        """Return the open connections with fewer than `depth` outstanding requests."""
        return [reader for reader in self.by_number.values() if len(reader.ranges) < depth]

    @property
    def lacks_memory(self) -> bool:
        """Return whether a response cannot be received now because there is no free buffer memory."""
        return any(reader.connection.lacks_memory for reader in self.by_number.values())

    def unanswered_since(self) -> float:
        """Return when the oldest overdue response was due (monotonic seconds); infinity if none is."""
        return min([reader.connection.unanswered_since for reader in self.by_number.values()], default=inf)

    def window_limit(self) -> WindowLimit | None:
        """Return the limit of the read rate by the broker's socket buffers, or None without a limit."""
        opened = next(iter(self.by_number.values()), None)
        each = self._count.bytes_each(self._cluster.loop.now())
        if opened is None or not each:
            return None
        trip = opened.connection.round_trip()
        count, most = len(self.by_number), self._count.most
        return WindowLimit(self._broker, round(each * trip), round(trip * 1000, 1), count, most)

    def take_throttled(self, now: float) -> float:
        """Return the longest throttle time of a connection since the previous call, in seconds."""
        return max(
            [reader.connection.throttling.take(now) for reader in self.by_number.values()], default=0.0
        )

    async def _open(self, number: int) -> None:
        try:
            connection = await self._cluster.connection(self._broker, self._tier.role_ahead(number))
        except HeadraceError as error:
            _log.debug("no additional connection", cluster=self._cluster.name, reason=str(error))
            self._open_from = self._cluster.loop.now() + _OPEN_RETRY_SECONDS
            return
        finally:
            self._opening.discard(number)
        if self._is_closed or number >= self._count.count:
            connection.close()
            return
        opened = self.by_number[number] = AheadConnection(connection)
        connection.when_closed(partial(self._on_close, number, opened))
        if len(self.by_number) == self._count.count:
            self._count.opened(self._cluster.loop.now(), connection.round_trip())
        self._on_change()

    def _on_close(self, number: int, closed: AheadConnection, error: HeadraceError) -> None:
        if self.by_number.get(number) is closed:
            del self.by_number[number]
            _log.debug("additional connection closed", cluster=self._cluster.name, reason=str(error))
            self._note_closed()

    def _shrink(self, count: int) -> None:
        for number in [known for known in self.by_number if known >= count]:
            self.by_number.pop(number).connection.close()
        self._note_closed()

    def _note_closed(self) -> None:
        if self.by_number:
            self._on_change()
        else:
            self._on_lost()
