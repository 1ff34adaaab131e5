"""Finds out whether anything answers at a cluster's addresses before a client of librdkafka is opened.

A client has threads of its own, and says only after the whole patience of a question that a connection was
refused at once.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from time import monotonic
from typing import Final

from mirror.adapters.settings import KafkaCluster
from mirror.errors import TimedOut, Unreachable
from mirror.model.clusters import bootstrap_servers
from mirror.protocol.frame import request_head

_API_VERSIONS: Final = 18
_CLIENT: Final = b"headrace-knock"
_ADVICE: Final = "is there a Kafka broker, and does it expect TLS or a log-in at that port?"


def knock(cluster: KafkaCluster, patience_seconds: float) -> None:
    """Return when one of the bootstrap servers has answered anything. All are asked side by side.

    Raises Unreachable when none can be connected to, and TimedOut.
    """
    failures: list[str] = []
    deadline = monotonic() + patience_seconds
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for caller in _callers(cluster, failures):
            stack.callback(caller.socket.close)
            if (problem := caller.call()) is None:
                waiting.register(caller.socket, selectors.EVENT_WRITE, caller)
            else:
                failures.append(problem)
        while waiting.get_map() and monotonic() < deadline:
            for key, _ in waiting.select(max(0.0, deadline - monotonic())):
                caller = key.data
                problem = caller.listen() if key.events == selectors.EVENT_READ else caller.speak()
                if problem is not None:
                    failures.append(problem)
                    waiting.unregister(caller.socket)
                elif key.events == selectors.EVENT_READ:
                    return
                else:
                    waiting.modify(caller.socket, selectors.EVENT_READ, caller)
        silent = [key.data.name for key in waiting.get_map().values()]
    if silent:
        reason = f"{', '.join(silent)}: no answer within {patience_seconds:.0f} s"
        raise TimedOut("; ".join([reason, *failures]), advice=_ADVICE)
    raise Unreachable("; ".join(dict.fromkeys(failures)))


class _Caller:
    """One address. Each step returns what was wrong, or None."""

    def __init__(self, name: str, family: int, address: tuple[object, ...], greeting: bytes) -> None:
        self.name = name
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self._address = address
        self._greeting = greeting

    def call(self) -> str | None:
        """Begin to connect."""
        self.socket.setblocking(False)
        try:
            self.socket.connect(self._address)
        except BlockingIOError:
            return None
        except OSError as error:
            return self._said(error)
        return None

    def speak(self) -> str | None:
        """Say something that is answered, once connected."""
        number = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            return f"{self.name}: {os.strerror(number)}"
        try:
            self.socket.send(self._greeting)
        except OSError as error:
            return self._said(error)
        return None

    def listen(self) -> str | None:
        """Whatever comes is an answer."""
        try:
            answer = self.socket.recv(1)
        except OSError as error:
            return self._said(error)
        return None if answer else f"{self.name} closed the connection without an answer: {_ADVICE}"

    def _said(self, error: OSError) -> str:
        return f"{self.name}: {error.strerror or error}"


def _callers(cluster: KafkaCluster, failures: list[str]) -> Iterator[_Caller]:
    is_tls = cluster.security.protocol.endswith("SSL")
    for host, port in bootstrap_servers("bootstrap_servers", cluster.bootstrap_servers):
        greeting = _client_hello(host) if is_tls else _ask_versions()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            failures.append(f"{host}: {error.strerror or error}")
            continue
        for family, _, _, _, address in found:
            yield _Caller(f"{host}:{port}", family, address, greeting)


def _ask_versions() -> bytes:
    """A request for the versions that a broker speaks, which it answers also before a log-in."""
    return request_head(_API_VERSIONS, 0, 0, _CLIENT, 0, flexible=False)


def _client_hello(host: str) -> bytes:
    """The first message of TLS. Nothing is encrypted after it, so no certificate is looked at."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=None if _is_address(host) else host)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
