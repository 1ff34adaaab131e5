"""Non-blocking socket I/O with TLS.

OpenSSL would need two system calls for each TLS record of 16 KB. Encrypted bytes therefore pass through
buffers in memory, and one system call receives or sends many records.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mirror.client.event_loop import READ, WRITE, Loop, Promise
from mirror.client.transport import Buffer, Transport
from mirror.errors import HeadraceError, NotAuthorized, TimedOut, Unreachable
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint
from mirror.tls import certificate_file_of, validity_text

_RECORD_BYTES: Final = 16 * 1024
_RECORD_OVERHEAD: Final = 64
"""Upper bound of the bytes that encryption adds to a TLS record."""
_LARGEST_RECORD: Final = _RECORD_BYTES + 2048 + 5
_WORTH_JOINING: Final = 4 * 1024
_MOST_RECEIVED: Final = 128 * 1024
_MOST_SENT: Final = 64 * 1024
"""Maximum number of bytes to encrypt at a time, so that they fit into the CPU cache."""


class _Scratch(threading.local):
    """Buffer for encrypted bytes between a socket and OpenSSL."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_MOST_RECEIVED))


_scratch = _Scratch()


class TlsTransport(Transport):
    """A connected socket with TLS, for one thread. `received`, `to_send`: buffers of `tls` for encrypted
    bytes. `certificate_file`: client certificate, empty without one."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLObject,
        received: ssl.MemoryBIO,
        to_send: ssl.MemoryBIO,
        certificate_file: str,
    ) -> None:
        super().__init__(sock)
        self._tls = tls
        self._received = received
        self._to_send = to_send
        self._certificate_file = certificate_file
        self._unsent = memoryview(b"")
        """Encrypted bytes to send that the socket has not accepted yet."""
        self._owed = 0
        """Number of plaintext bytes in `_unsent`.

        `send` returns this number after the socket has accepted all of `_unsent`.
        """

    def broken(self, name: str, error: OSError) -> HeadraceError:
        """Return the exception for a socket error of the connection."""
        return broken(name, error, self._certificate_file)

    def receive_into(self, buffer: memoryview) -> int | None:
        """Receive bytes until the buffer is full or no more are available."""
        tls, received, size = self._tls, self._received, len(buffer)
        filled, is_drained = 0, False
        while filled < size:
            if received.pending or tls.pending():
                try:
                    count: int = tls.read(size - filled, buffer[filled:])  # type: ignore[assignment]
                except ssl.SSLWantReadError:  # the record is incomplete
                    pass
                else:
                    if not count:
                        return filled
                    filled += count
                    continue
            if is_drained:
                break
            rest = size - filled
            wanted = min(rest + (rest // _RECORD_BYTES + 1) * _RECORD_OVERHEAD, _MOST_RECEIVED)
            got = self._receive(wanted)
            if got is None:
                break
            if not got:
                return filled
            is_drained = got < wanted
        if self._to_send.pending:  # for example the response to a change of keys
            self._unsent = memoryview(bytes(self._unsent) + self._to_send.read())
            self._flush()
        return filled or None

    def _receive(self, size: int) -> int | None:
        """Receive at most `size` encrypted bytes, and return their number. Returns 0 at the end of the
        stream, None if no bytes are available."""
        scratch = _scratch.buffer
        try:
            count = self.socket.recv_into(scratch, size)
        except BlockingIOError:
            return None
        self._received.write(scratch[:count])
        return count

    @property
    def has_received(self) -> bool:
        """Return whether received bytes are in memory, so that no socket event will announce them."""
        return bool(self._received.pending or self._tls.pending())

    def expect(self, size: int) -> None:
        """Wake the event loop only when about `size` more bytes have arrived: up to one TLS record earlier,
        because OpenSSL may have a part of the next record. Raises OSError."""
        super().expect(max(size - _LARGEST_RECORD, 1))

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and send part of one buffer, or several small buffers together. After a return value of 0,
        the next call must start with the same bytes."""
        if len(self._unsent):
            if not self._flush():
                return 0
            if self._owed:
                owed, self._owed = self._owed, 0
                return owed
        first = buffers[0]
        if len(first) < _WORTH_JOINING:
            together = bytearray()
            for buffer in buffers:
                together += buffer[: _RECORD_BYTES - len(together)]
                if len(together) >= _RECORD_BYTES:
                    break
            first = together
        try:
            size = self._tls.write(memoryview(first)[:_MOST_SENT])
        except ssl.SSLWantReadError:
            return 0
        self._unsent = memoryview(self._to_send.read())
        if self._flush():
            return size
        self._owed = size
        return 0

    def _flush(self) -> bool:
        """Send the buffered encrypted bytes. Return whether the socket has accepted all of them."""
        try:
            while len(self._unsent):
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return True


async def encrypt(
    loop: Loop, sock: socket.socket, endpoint: Endpoint, tls: ssl.SSLContext, deadline: float
) -> Transport:
    """Do the TLS handshake on a new connection. Raises Unreachable, TimedOut; NotAuthorized for an untrusted
    certificate."""
    name = address_of(endpoint.host, endpoint.port)
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    wrapped = tls.wrap_bio(received, to_send, server_hostname=endpoint.host)
    try:
        await _shake_hands(loop, sock, wrapped, (received, to_send), deadline)
    except ssl.SSLCertVerificationError as error:
        raise NotAuthorized(
            f"certificate of {name} is not trusted: {error.verify_message}",
            advice="set ca_file to the CA that signed it; the certificate must contain the host name",
        ) from error
    except OSError as error:
        raise _failed_handshake(name, error, certificate_file_of(tls)) from error
    return TlsTransport(sock, wrapped, received, to_send, certificate_file_of(tls))


async def _shake_hands(
    loop: Loop,
    sock: socket.socket,
    wrapped: ssl.SSLObject,
    buffers: tuple[ssl.MemoryBIO, ssl.MemoryBIO],
    deadline: float,
) -> None:
    received, to_send = buffers
    is_done = False
    while not is_done:
        try:
            wrapped.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            with suppress(OSError):
                sock.send(to_send.read())  # send the reason to the broker's log
            raise
        if to_send.pending:
            unsent = memoryview(to_send.read())
            while len(unsent):
                await ready(loop, sock, WRITE, deadline)
                unsent = unsent[sock.send(unsent) :]
        if not is_done:
            await ready(loop, sock, READ, deadline)
            data = sock.recv(_RECORD_BYTES)
            if data:
                received.write(data)
            else:
                received.write_eof()


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


def broken(name: str, error: OSError, certificate_file: str | None = None) -> HeadraceError:
    """Return the exception for a socket error of the connection.

    With TLS 1.3, a broker rejects a missing or invalid client certificate only after the handshake.
    `certificate_file`: client certificate, empty without one; None without TLS.
    """
    return _rejection(name, error, certificate_file) or Unreachable(
        f"connection to {name} failed: {error.strerror or error}"
    )


_CERTIFICATE_ALERTS: Final = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")
"""Parts of TLS alert names that reject or require a client certificate."""
_NO_TLS: Final = ("UNEXPECTED_EOF", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""Parts of handshake errors from a port that does not use TLS."""


def _rejection(name: str, error: OSError, certificate_file: str | None) -> NotAuthorized | None:
    """Return the exception if the server rejects or requires a client certificate, otherwise None."""
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


async def ready(loop: Loop, sock: socket.socket, events: int, deadline: float) -> None:
    """Wait until the socket is ready for one of the events. Raises TimedOut."""
    promise = Promise[None]()
    loop.watch(sock, events, lambda _: promise.resolve(None))
    late = TimedOut("timed out", advice="check that a Kafka broker listens at that address")
    timer = loop.call_later(deadline - loop.now(), lambda: promise.fail(late))
    try:
        await promise
    finally:
        timer.cancel()
        loop.unwatch(sock)
