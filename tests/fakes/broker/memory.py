"""Connections in memory, with the parts of `socket` and `selectors` that one thread needs.

As with TCP over loopback, sent data arrives at once, up to the receiver's buffer space; a connection closed
with unread bytes is reset. It makes no system calls, and does not depend on the system's ordering.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE
ROOM: Final = 64 * 1024
_MIN_RTT_AT: Final = 148
"""Place of the shortest round trip in `struct tcp_info` of Linux."""
_RESENT_AT: Final = 2
"""Place of the times that unacknowledged bytes were sent again."""
_ACKED_AT: Final = 120
"""Place of the number of acknowledged bytes."""
_BUSY_AT: Final = 168
"""Place of the time with data to send, and of the part of it for which the kernel blames a full window."""
_WINDOW_AT: Final = 228
_BLAMED_SHARE: Final = 0.3
"""Part of that time which Linux blames on a window that is always full, as measured with Linux 6.18, a round
trip of 100 ms and socket buffers of 100 KB."""
_FIRST_NUMBER: Final = 1_000_000
_FIRST_PORT: Final = 20_000
Ready = list[tuple[selectors.SelectorKey, int]]


class MemorySocket:
    """One side of a connection, or a listener. `is_cut`: the network drops what is sent from now on."""

    def __init__(self, network: Network) -> None:
        self.is_cut = False
        self._is_resending = False
        self.inbox = bytearray()
        self.other: MemorySocket | None = None
        self.selector: MemorySelector | None = None
        self.is_ended = False
        self.is_reset = False
        self.arrivals: deque[MemorySocket] = deque()
        self._network = network
        self._number = next(network.numbers)
        self._enough = 1
        self._is_client = False
        self._in_flight = self._acked = 0
        self._busy = self._busy_since = 0.0

    def fileno(self) -> int:
        """Return a unique number, or -1 after closing."""
        return self._number

    def setblocking(self, flag: bool) -> None:
        """Do nothing: the socket never blocks."""

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Set SO_RCVLOWAT, the number of bytes that make it readable; ignore other options."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT) and isinstance(value, int):
            self._enough = min(value, self._network.room)
            self.stir()

    def getsockopt(self, level: int, option: int, size: int = 0) -> int | bytes:
        """Return 0, no error on the connection, or the kernel's figures with the network's round trip."""
        if not size:
            return 0
        info = bytearray(_WINDOW_AT + 4)
        info[_RESENT_AT] = 4 * self._is_resending
        struct.pack_into("=I", info, _MIN_RTT_AT, round(self._network.round_trip * 1e6))
        struct.pack_into("=Q", info, _ACKED_AT, self._acked)
        busy = self._busy_seconds()
        struct.pack_into("=QQ", info, _BUSY_AT, round(busy * 1e6), round(busy * _BLAMED_SHARE * 1e6))
        struct.pack_into("=I", info, _WINDOW_AT, self._network.window_bytes)
        return bytes(info[:size])

    def connect_ex(self, address: tuple[str, int]) -> int:
        """Connect at once."""
        listener = self._network.listeners.get(address[1])
        if listener is None:
            return errno.ECONNREFUSED
        self._is_client = True
        self.other = there = MemorySocket(self._network)
        there.other = self
        listener.arrivals.append(there)
        listener.stir()
        return 0

    def accept(self) -> tuple[MemorySocket, None]:
        """Return the next connection of a listener."""
        if not self.arrivals:
            raise BlockingIOError
        return self.arrivals.popleft(), None

    def recv(self, size: int) -> bytes:
        """Return received bytes; none at the end."""
        self._check_readable()
        data = bytes(self.inbox[:size])
        self._take(len(data))
        return data

    def recv_into(self, buffer: memoryview) -> int:
        """Return the number of received bytes; 0 at the end."""
        self._check_readable()
        size = min(len(self.inbox), len(buffer))
        buffer[:size] = self.inbox[:size]
        self._take(size)
        return size

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send as much as the buffer space allows."""
        return self.sendmsg([data])

    def sendmsg(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        """Send as much as the buffer space allows."""
        there = self.other
        if self.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")
        if there is None or there._number < 0:
            raise BrokenPipeError(errno.EPIPE, "closed by peer")
        if self.is_cut:
            self._is_resending = True
            return sum(map(len, buffers))
        sent = 0
        for buffer in buffers:
            part = buffer[: self._room(there)]
            there.inbox += part
            self._carry(len(part))
            sent += len(part)
            if len(part) < len(buffer):
                break
        if not sent and any(buffers):
            raise BlockingIOError
        there.stir()
        return sent

    def close(self) -> None:
        """End the connection, also for the other side once it has read all data. Idempotent."""
        if self._number < 0:
            return
        self._number = -1
        self._network.forget(self)
        for arrived in self.arrivals:
            arrived.close()
        if self.other is not None:
            self.other.is_ended = True
            self.other.is_reset = bool(self.inbox)
            self.other.stir()

    def readiness(self) -> int:
        """Return the events for which the socket is ready."""
        is_readable = len(self.inbox) >= self._enough or self.arrivals or self.is_ended
        has_room = self.other is not None and (self.is_ended or self._room(self.other) > 0)
        return (READ if is_readable else 0) | (WRITE if has_room else 0)

    def stir(self) -> None:
        """Mark the socket for the selector after a change."""
        if self.selector is not None:
            self.selector.stirred[self._number] = None

    def _room(self, there: MemorySocket) -> int:
        room = self._network.room - len(there.inbox)
        if self._network.later is not None and self._is_client:
            room = min(room, self._network.window_bytes - self._in_flight)
        return max(room, 0)

    def _carry(self, size: int) -> None:
        network = self._network
        if network.later is None or not self._is_client:
            self._acked += size
        elif size:
            if not self._in_flight:
                self._busy_since = network.now()
            self._in_flight += size
            network.later(network.round_trip, lambda: self._acknowledge(size))

    def _busy_seconds(self) -> float:
        now = self._network.now()
        if self._network.later is None:
            return now
        return self._busy + (now - self._busy_since if self._in_flight else 0.0)

    def _acknowledge(self, size: int) -> None:
        self._in_flight -= size
        self._acked += size
        if not self._in_flight:
            self._busy += self._network.now() - self._busy_since
        self.stir()

    def _check_readable(self) -> None:
        if self.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")
        if not (self.inbox or self.is_ended):
            raise BlockingIOError

    def _take(self, size: int) -> None:
        was_full = len(self.inbox) >= self._network.room
        del self.inbox[:size]
        if was_full and self.other is not None:
            self.other.stir()


class Network:
    """Listening ports."""

    def __init__(self) -> None:
        self.numbers = count(_FIRST_NUMBER)
        self.listeners: dict[int, MemorySocket] = {}
        self.round_trip = 0.0
        """Round trip in seconds that the kernel reports."""
        self.window_bytes = 0
        """Window of the brokers, as the kernel reports it; 0: nothing is reported."""
        self.now: Callable[[], float] = lambda: 0.0
        self.later: Callable[[float, Callable[[], None]], object] | None = None
        """Function that calls another one after some seconds. With it, a connection of a client carries at
        most a window per round trip; otherwise it always has data to send, and sends without a limit."""
        self.room = ROOM
        """Maximum number of bytes in transit to one side of a connection."""
        self.open_clients: set[MemorySocket] = set()
        self._ports = count(_FIRST_PORT)

    def socket(self, family: int, kind: int) -> Any:
        """Return an unconnected socket, typed like `socket.socket`."""
        made = MemorySocket(self)
        self.open_clients.add(made)
        return made

    def listen(self) -> tuple[Any, int]:
        """Return a listener and its port."""
        listener, port = MemorySocket(self), next(self._ports)
        self.listeners[port] = listener
        return listener, port

    def forget(self, gone: MemorySocket) -> None:
        """Remove a closed socket."""
        self.open_clients.discard(gone)
        for port in [port for port, one in self.listeners.items() if one is gone]:
            del self.listeners[port]


class MemorySelector(selectors.BaseSelector):
    """Selector that never waits. Real sockets are accepted and never ready: one thread needs no wake-ups."""

    def __init__(self) -> None:
        self.stirred: dict[int, None] = {}
        """Numbers of sockets that may be ready."""
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Add a socket, which may be ready at once. Return its key."""
        number = fileobj.fileno()
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        if isinstance(fileobj, MemorySocket):
            fileobj.selector = self
            self.stirred[number] = None
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Remove a socket. Return its key."""
        number = fileobj.fileno()
        self.stirred.pop(number, None)
        if isinstance(fileobj, MemorySocket):
            fileobj.selector = None
        return self._keys.pop(number)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Change the awaited events of a socket. Return its new key."""
        return self.register(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the keys by number."""
        return self._keys

    def close(self) -> None:
        """Remove all sockets."""
        self._keys.clear()
        self.stirred.clear()

    def select(self, timeout: float | None = None) -> Ready:
        """Return the sockets that are ready now."""
        if not self.stirred:
            return []
        ready = []
        for number in list(self.stirred):
            key = self._keys.get(number)
            one = key.fileobj if key is not None else None
            events = one.readiness() & key.events if key and isinstance(one, MemorySocket) else 0
            if key is not None and events:
                ready.append((key, events))
            else:
                del self.stirred[number]
        return ready
