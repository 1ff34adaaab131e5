"""Non-blocking socket I/O in plaintext. One system call sends several buffers."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Final

from mirror.errors import HeadraceError, Unreachable

MOST_BUFFERS: Final = min(os.sysconf("SC_IOV_MAX"), 1024)
Buffer = bytes | bytearray | memoryview

_HAS_TCP_INFO: Final = hasattr(socket, "TCP_INFO")
_MIN_RTT_AT: Final = 148
"""Byte offset of `tcpi_min_rtt` (microseconds) in Linux's `struct tcp_info` (include/uapi/linux/tcp.h)."""
ACKED_AT: Final = 120
"""Byte offset of `tcpi_bytes_acked`."""
_BYTES: Final = struct.Struct("=Q")
_MICROSECONDS: Final = struct.Struct("=I")
_NOT_MEASURED: Final = 2**32 - 1


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
        """Return whether received bytes are in memory, for which the loop does not wake."""
        return False

    def expect(self, size: int) -> None:
        """Wake the event loop only when `size` bytes have arrived. Raises OSError."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def round_trip(self) -> float:
        """Return the kernel's minimum round-trip time in seconds, or 0 if unknown."""
        info = self.tcp_info(_MIN_RTT_AT + _MICROSECONDS.size)
        microseconds: int = _MICROSECONDS.unpack_from(info, _MIN_RTT_AT)[0] if info else _NOT_MEASURED
        return microseconds / 1e6 if microseconds != _NOT_MEASURED else 0.0

    def acknowledged_bytes(self) -> int:
        """Return the bytes that the peer's kernel has acknowledged, or 0 if unknown."""
        info = self.tcp_info(ACKED_AT + _BYTES.size)
        acknowledged: int = _BYTES.unpack_from(info, ACKED_AT)[0] if info else 0
        return acknowledged

    def tcp_info(self, size: int) -> bytes:
        """Return the first `size` bytes of the kernel's `struct tcp_info`, or nothing if it is shorter."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size) if _HAS_TCP_INFO else b""
        return info if len(info) == size else b""

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
