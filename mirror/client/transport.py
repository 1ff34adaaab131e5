"""Non-blocking socket I/O, plaintext or TLS.

Sends several buffers at once, without copying in plaintext; TLS encrypts them one by one.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from mirror.bulkheads import settle
from mirror.client.event_loop import READ, WRITE, Loop, Promise
from mirror.errors import HeadraceError, NotAuthorized, TimedOut, Unreachable
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint
from mirror.tls import certificate_file_of, validity_text

T = TypeVar("T")

MOST_BUFFERS: Final = min(os.sysconf("SC_IOV_MAX"), 1024)
_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})
Buffer = bytes | bytearray | memoryview

_HAS_TCP_INFO: Final = hasattr(socket, "TCP_INFO")
_MIN_RTT_AT: Final = 148
"""Byte offset of `tcpi_min_rtt` (microseconds) in Linux's `struct tcp_info` (include/uapi/linux/tcp.h)."""
_MICROSECONDS: Final = struct.Struct("=I")
_NOT_MEASURED: Final = 2**32 - 1


class Transport:
    """A connected socket. `receive_into` and `send` never block."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def receive_into(self, buffer: memoryview) -> int | None:
        """Return the number of bytes received; 0 at end of stream, None if none are available.

        Raises OSError.
        """
        try:
            return self.socket.recv_into(buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None

    def expect(self, size: int) -> None:
        """Wake the loop only when `size` bytes have arrived, not for each packet. Raises OSError."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def round_trip(self) -> float:
        """Return the kernel's shortest measured round trip in seconds; 0 if it does not provide it."""
        info = self.tcp_info(_MIN_RTT_AT + _MICROSECONDS.size)
        microseconds: int = _MICROSECONDS.unpack_from(info, _MIN_RTT_AT)[0] if info else _NOT_MEASURED
        return microseconds / 1e6 if microseconds != _NOT_MEASURED else 0.0

    def tcp_info(self, size: int) -> bytes:
        """Return the first `size` bytes of the kernel's `struct tcp_info`; none if it is shorter."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size) if _HAS_TCP_INFO else b""
        return info if len(info) == size else b""

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Return the number of bytes sent; 0 if the socket is not writable. Raises OSError."""
        try:
            return self.socket.sendmsg(buffers[:MOST_BUFFERS])
        except BlockingIOError:
            return 0

    def broken(self, name: str, error: OSError) -> HeadraceError:
        """Return the error for the broken connection."""
        return broken(name, error)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class TlsTransport(Transport):
    """A connected TLS socket. `certificate_file`: file of the client certificate; empty if there is none."""

    socket: ssl.SSLSocket

    def __init__(self, sock: ssl.SSLSocket, certificate_file: str) -> None:
        super().__init__(sock)
        self._certificate_file = certificate_file

    def broken(self, name: str, error: OSError) -> HeadraceError:
        """Return the error for the broken connection."""
        return broken(name, error, self._certificate_file)

    def expect(self, size: int) -> None:
        """Do nothing: bytes on the socket are not yet decrypted data."""

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send one buffer, or several small ones together, to avoid a TLS record for each."""
        first = buffers[0]
        if len(first) < _WORTH_JOINING:
            together = bytearray()
            for buffer in buffers:
                together += buffer[: _TLS_RECORD - len(together)]
                if len(together) >= _TLS_RECORD:
                    break
            first = together
        try:
            return self.socket.send(first)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0


def broken(name: str, error: OSError, certificate_file: str | None = None) -> HeadraceError:
    """Return the error for a broken connection.

    With TLS 1.3, a broker rejects a client certificate, or its absence, only after the handshake.
    `certificate_file`: file of the client certificate; empty if there is none, None without TLS.
    """
    return _rejection(name, error, certificate_file) or Unreachable(
        f"connection to {name} failed: {error.strerror or error}"
    )


_CERTIFICATE_ALERTS: Final = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")
"""Words of the TLS alerts by which a server rejects a client certificate, or its absence."""
_NO_TLS: Final = ("UNEXPECTED_EOF", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""Words of the errors of a handshake with a port that does not use TLS."""


def _rejection(name: str, error: OSError, certificate_file: str | None) -> NotAuthorized | None:
    """Return the error for a client certificate that a server rejects or requires; else None."""
    reason = str(getattr(error, "reason", None) or "")
    is_alert = isinstance(error, ssl.SSLError) and "ALERT" in reason
    if certificate_file is None or not is_alert or not any(word in reason for word in _CERTIFICATE_ALERTS):
        return None
    alert = reason.lower().replace("_", " ")
    if not certificate_file:
        return NotAuthorized(
            f"{name} {'probably ' if 'HANDSHAKE' in reason else ''}requires a client certificate, and none is"
            f" configured ({alert})",
            advice="set certificate_file and key_file to a certificate that the broker trusts",
        )
    return NotAuthorized(
        f"{name} rejected the client certificate {validity_text(certificate_file)}: {alert}",
        advice="replace certificate_file and key_file by a certificate that the broker trusts; the next"
        " connection reads changed files again",
    )


_TLS_RECORD: Final = 16 * 1024
_WORTH_JOINING: Final = 4 * 1024

_CONNECT_SECONDS: Final = 5.0
"""Timeout of a TCP connection attempt. The kernel resends a lost SYN 1, 3, 7, 15 and 31 s after the first
SYN, so a longer attempt would notice too late that a host has returned."""

_looking_up: dict[str, Future[list[Any]]] = {}
_lock = threading.Lock()
"""Host name lookups in progress, each in a separate thread: the system has no non-blocking lookup, and a name
server that does not respond must not delay lookups of other names."""


async def connect(
    loop: Loop, endpoint: Endpoint, tls: ssl.SSLContext | None, timeout_seconds: float
) -> Transport:
    """Connect to the endpoint. Raises Unreachable, TimedOut, and NotAuthorized for untrusted certificates."""
    deadline = loop.now() + timeout_seconds
    name = address_of(endpoint.host, endpoint.port)
    failure: HeadraceError = Unreachable(f"cannot connect to {name}: no address")
    for family, address in await _resolve(loop, endpoint, deadline):
        sock = loop.new_socket(family, socket.SOCK_STREAM)
        try:
            with ExitStack() as undo:
                undo.callback(sock.close)
                await _connect_socket(loop, sock, address, min(deadline, loop.now() + _CONNECT_SECONDS))
                made = Transport(sock) if tls is None else await _encrypt(loop, sock, endpoint, tls, deadline)
                undo.pop_all()
        except TimedOut as error:
            failure = TimedOut(f"cannot connect to {name}: {error.message}", advice=error.advice)
            failure.__cause__ = error
        except OSError as error:
            failure = Unreachable(f"cannot connect to {name}: {error.strerror or error}")
            failure.__cause__ = error
        except HeadraceError as error:
            failure = error
        else:
            return made
        if not failure.retriable:
            break
    raise failure


Address = tuple[socket.AddressFamily, tuple[str, int]]


async def _resolve(loop: Loop, endpoint: Endpoint, deadline: float) -> list[Address]:
    try:
        version = ip_address(endpoint.host).version
    except ValueError:
        return await _look_up(loop, endpoint, deadline)
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return [(family, (endpoint.host, endpoint.port))]


async def _look_up(loop: Loop, endpoint: Endpoint, deadline: float) -> list[Address]:
    host = endpoint.host
    try:
        found = await _result_of(loop, _addresses_of(host), deadline)
    except TimeoutError:
        raise TimedOut(f"cannot resolve host {host}: timed out") from None
    except OSError as error:
        raise Unreachable(f"cannot resolve host {host}: {error.strerror}") from error
    return [(info[0], (str(info[4][0]), endpoint.port)) for info in found]


def _addresses_of(host: str) -> Future[list[Any]]:
    """Resolve a host name. Concurrent callers for the same name share one lookup."""
    with _lock:
        known = _looking_up.get(host)
        if known is None:
            known = _looking_up[host] = _in_thread(f"resolver-{host}", lambda: _find(host))
        return known


def _find(host: str) -> list[Any]:
    try:
        found: list[Any] = socket.getaddrinfo(host, 0, 0, socket.SOCK_STREAM)
    finally:
        with _lock:
            del _looking_up[host]
    return found


async def beside(loop: Loop, name: str, job: Callable[[], T], seconds: float) -> T:
    """Run a blocking job in a new thread while the loop continues, and return the result of the job.

    Raises the errors of the job, and TimeoutError.
    """
    return await _result_of(loop, _in_thread(name, job), loop.now() + seconds)


def _in_thread(name: str, job: Callable[[], T]) -> Future[T]:
    answer: Future[T] = Future()

    threading.Thread(target=settle, args=(answer, job), name=name, daemon=True).start()
    return answer


async def _result_of(loop: Loop, answer: Future[T], deadline: float) -> T:
    promise = Promise[None]()
    answer.add_done_callback(lambda _: loop.wake())

    def check() -> None:
        if answer.done() or loop.now() >= deadline:
            promise.resolve(None)
        else:
            loop.call_later(_CHECK_SECONDS, check)

    check()
    await promise
    return answer.result(0)


_CHECK_SECONDS: Final = 0.005


async def _connect_socket(loop: Loop, sock: socket.socket, address: tuple[str, int], deadline: float) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    code = sock.connect_ex(address)
    if code in _UNDER_WAY:
        await _ready(loop, sock, WRITE, deadline)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


async def _encrypt(
    loop: Loop, sock: socket.socket, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float
) -> Transport:
    name = address_of(endpoint.host, endpoint.port)
    wrapped = tls.wrap_socket(sock, server_hostname=endpoint.host, do_handshake_on_connect=False)
    try:
        with ExitStack() as undo:
            undo.callback(wrapped.close)
            await _shake_hands(loop, wrapped, deadline)
            undo.pop_all()
        return TlsTransport(wrapped, certificate_file_of(tls))
    except ssl.SSLCertVerificationError as error:
        raise NotAuthorized(
            f"certificate of {name} is not trusted: {error.verify_message}",
            advice="set ca_file to the authority that signed it; the certificate must name that host",
        ) from error
    except OSError as error:
        raise _failed_handshake(name, error, certificate_file_of(tls)) from error


async def _shake_hands(loop: Loop, wrapped: ssl.SSLSocket, deadline: float) -> None:
    while True:
        try:
            wrapped.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(loop, wrapped, READ, deadline)
        except ssl.SSLWantWriteError:
            await _ready(loop, wrapped, WRITE, deadline)
        else:
            return


def _failed_handshake(name: str, error: OSError, certificate_file: str) -> HeadraceError:
    rejection = _rejection(name, error, certificate_file)
    if rejection is not None:
        return rejection
    reason = str(getattr(error, "reason", None) or error.strerror or error)
    is_plain = isinstance(error, ConnectionError) or any(word in reason for word in _NO_TLS)
    return Unreachable(
        f"TLS handshake with {name} failed: {reason}",
        advice="the port probably does not use TLS: check security.protocol and the port" if is_plain else "",
    )


async def _ready(loop: Loop, sock: socket.socket, events: int, deadline: float) -> None:
    promise = Promise[None]()
    loop.watch(sock, events, lambda _: promise.resolve(None))
    late = TimedOut("timed out", advice="check that a Kafka broker listens at that address")
    timer = loop.call_later(deadline - loop.now(), lambda: promise.fail(late))
    try:
        await promise
    finally:
        timer.cancel()
        loop.unwatch(sock)
