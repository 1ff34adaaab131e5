"""Replaces the socket waits of kazoo, to detect a server that stops responding.

By default, kazoo creates and closes a selector for each wait. Such a wait takes five system calls, and the
thread waits for the interpreter lock after each. `poll` takes one. Also, kazoo counts every sent request as a
ping, and does not notice missing responses. A busy client would stay connected to a frozen server until
ZooKeeper ends the session.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Sequence
from socket import IPPROTO_TCP, TCP_USER_TIMEOUT, socket
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped

from mirror.loggers import get_logger

_log = get_logger(__name__)
_MOVE_SHARE: Final = 0.4
"""Time without a response after which the client connects to another server, as a share of the session
timeout.

The client changes the server before the lease of the instance ends, even if the last response is a second
old.
"""
_ONLY_SERVER_SHARE: Final = 2 / 3
"""Time without a response after which the client reconnects to its only server, as a share of the session
timeout."""
_AVOIDED_SECONDS: Final = 60.0
"""Seconds for which an unresponsive server is tried only after all other servers."""

Ready = tuple[list[socket], list[socket], list[socket]]
HostPort = tuple[str, str, int]
"""Name, address and port of a server, as in kazoo."""


class ServerWatch:
    """Detects that the server of one client no longer responds. Used only on kazoo's thread.

    `session_timeout_seconds`: returns the timeout that the server granted.
    """

    def __init__(self, client: KazooClient, session_timeout_seconds: Callable[[], float]) -> None:
        self._client = client
        self._connection: Any = client._connection  # noqa: SLF001 - kazoo has no other access
        self._session_timeout_seconds = session_timeout_seconds
        self._server: tuple[str, int] = ("", 0)
        self._silent: dict[tuple[str, int], float] = {}
        self._waiting_since: float | None = None

    def install(self) -> None:
        """Replace the waits, the order of servers and the socket options of the client."""
        create, order = self._client.handler.create_connection, self._connection._expand_client_hosts  # noqa: SLF001

        def connect(address: tuple[str, int], timeout: float, **options: object) -> socket:
            self._server, self._waiting_since = address, None
            self._silent[address] = time.monotonic()  # until it responds
            seconds = timeout / max(self._servers, 1)
            sock: socket = create(address=address, timeout=seconds, **options)
            sock.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, math.ceil(self._limit * 1000))
            return sock

        self._client.handler.create_connection = connect
        self._client.handler.select = self.select
        self._connection._expand_client_hosts = lambda: self.ordered(order())  # noqa: SLF001

    def ordered(self, servers: Sequence[HostPort]) -> list[HostPort]:
        """Return the servers in connection order. Servers that were recently unresponsive come last."""
        cut = time.monotonic() - _AVOIDED_SECONDS
        silent = {server: at for server, at in self._silent.items() if at > cut}
        return sorted(servers, key=lambda server: silent.get((server[1], server[2]), -math.inf))

    def select(
        self,
        readers: Sequence[socket],
        writers: Sequence[socket],
        others: Sequence[socket],
        timeout: float | None = None,
    ) -> Ready:
        """Wait for sockets like `ready`. Raises ConnectionDropped if a response of the server is overdue.

        Only kazoo's main loop waits for two sockets: that of the server, and one that signals new requests.
        """
        server = self._connection._socket  # noqa: SLF001
        if len(readers) == 1 or server not in readers:
            return ready(readers, writers, others, timeout)
        if _has_decrypted(server):
            self._note_response()
            return [server], [], []
        while True:
            left = self._left()
            cut = left if timeout is None else min(timeout, left)
            found = ready(readers, writers, others, max(cut, 0.0) if cut < math.inf else None)
            if server in found[0]:
                self._note_response()
            elif self._left() <= 0:
                self._give_up()
            elif not found[0] and cut != timeout:
                continue
            return found

    def _left(self) -> float:
        """Return the seconds until the server's response is overdue, or infinity if none is outstanding."""
        if not (self._client._pending or self._connection.ping_outstanding.is_set()):  # noqa: SLF001
            self._waiting_since = None
            return math.inf
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return self._waiting_since + self._limit - now

    @property
    def _servers(self) -> int:
        return len(self._client.hosts)

    @property
    def _limit(self) -> float:
        share = _MOVE_SHARE if self._servers > 1 else _ONLY_SERVER_SHARE
        return self._session_timeout_seconds() * share

    def _note_response(self) -> None:
        self._waiting_since = None
        self._silent.pop(self._server, None)

    def _give_up(self) -> None:
        self._silent[self._server] = time.monotonic()
        self._waiting_since = None
        name = "{}:{}".format(*self._server)
        _log.warning("ZooKeeper server does not respond", address=name, seconds=round(self._limit, 1))
        raise ConnectionDropped(f"{name} stopped responding")


def _has_decrypted(server: Any) -> bool:
    """Return whether the TLS layer has buffered decrypted data.

    The kernel does not report such data as readable.
    """
    pending = getattr(server, "pending", None)
    return pending is not None and pending() > 0


def ready(
    readers: Sequence[socket], writers: Sequence[socket], _: Sequence[socket], timeout: float | None = None
) -> Ready:
    """Wait like `select.select`, but without its limit on file descriptors.

    The third list of the result is always empty. A broken socket counts as ready; the operation then fails.
    """
    wanted: dict[int, int] = {}
    for event, sockets in ((select.POLLIN, readers), (select.POLLOUT, writers)):
        for sock in sockets:
            wanted[sock.fileno()] = wanted.get(sock.fileno(), 0) | event
    poll = select.poll()
    for number, events in wanted.items():
        poll.register(number, events)
    found = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
    return (
        [reader for reader in readers if found.get(reader.fileno(), 0) & ~select.POLLOUT],
        [writer for writer in writers if found.get(writer.fileno(), 0) & ~select.POLLIN],
        [],
    )
