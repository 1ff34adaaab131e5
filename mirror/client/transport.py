"""Non-blocking socket I/O in plaintext. One system call sends several buffers."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from mirror.errors import HeadraceError, Unreachable

MOST_BUFFERS: Final = min(os.sysconf("SC_IOV_MAX"), 1024)
Buffer = bytes | bytearray | memoryview

_TCP_INFO: Final = struct.Struct("=2xB117xQ20xI16xQ52xI")
"""Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which ends earlier on old kernels."""
_NOT_MEASURED: Final = 2**32 - 1


class TcpInfo(NamedTuple):
    """Kernel counters of a connection; 0 if unknown. `retransmits`: attempts to send the oldest bytes again.
    `acked_bytes`: acknowledged by the peer's kernel. `min_rtt`, `busy_time`: shortest round trip and time
    with data to send (microseconds). `window_bytes`: receive window of the peer."""

    retransmits: int = 0
    acked_bytes: int = 0
    min_rtt: int = 0
    busy_time: int = 0
    window_bytes: int = 0

    @property
    def round_trip(self) -> float:
        """Return the shortest round trip in seconds, or 0 if unknown."""
        return self.min_rtt / 1e6 if self.min_rtt != _NOT_MEASURED else 0.0


class Transport:
    """A connected socket. `receive_into` and `send` never block."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def receive_into(self, buffer: memoryview) -> int | None:
        """Receive bytes. Return their number, 0 at the end of the stream, or None if none are available."""
        try:
            return self.socket.recv_into(buffer)
        except BlockingIOError:
            return None

    @property
    def has_received(self) -> bool:
        """Return whether received bytes are in memory, so that no socket event will announce them."""
        return False

    def expect(self, size: int) -> None:
        """Wake the event loop only when `size` bytes have arrived. Raises OSError."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def tcp_info(self) -> TcpInfo:
        """Return the kernel's counters of the connection."""
        if not hasattr(socket, "TCP_INFO"):
            return TcpInfo()
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        return TcpInfo(*_TCP_INFO.unpack(info.ljust(_TCP_INFO.size, b"\0")))

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send bytes, and return their number; 0 if the socket is not writable. Raises OSError."""
        try:
            return self.socket.sendmsg(buffers[:MOST_BUFFERS])
        except BlockingIOError:
            return 0

    def broken(self, name: str, error: OSError) -> HeadraceError:
        """Return the exception for a socket error of the connection."""
        return Unreachable(f"connection to {name} failed: {error.strerror or error}")

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
