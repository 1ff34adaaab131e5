"""Resolves host names and opens sockets."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from mirror.bulkheads import settle
from mirror.client.event_loop import WRITE, Loop, Promise
from mirror.client.tls_transport import encrypt, ready
from mirror.client.transport import Transport
from mirror.errors import HeadraceError, TimedOut, Unreachable
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint

T = TypeVar("T")

_RESET: Final = struct.pack("ii", 1, 0)
"""`struct linger` of a connection that is reset when it is closed."""
_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})
_CONNECT_SECONDS: Final = 5.0
"""Timeout of a TCP connection attempt in seconds.

The kernel resends a lost SYN after 1, 3, 7, 15 and 31 s, so a longer attempt would notice the return of a
host too late.
"""

_ADVICE: Final = "check that the broker is running, its address and the firewalls"
_ADVICE_HOST: Final = "check bootstrap_servers or advertised.listeners, and the name service of this host"

_looking_up: dict[str, Future[list[Any]]] = {}
_lock = threading.Lock()
"""Protects the host name lookups in progress.

Each lookup has its own thread: the system has no non-blocking lookup, and a slow name server must not delay
other lookups.
"""


def reset_on_close(sock: socket.socket) -> None:
    """Let the kernel discard unsent bytes when the socket is closed, so that no request is sent later."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def connect(
    loop: Loop, endpoint: Endpoint, tls: ssl.SSLContext | None, timeout_seconds: float
) -> Transport:
    """Connect to an endpoint. Raises Unreachable, TimedOut; NotAuthorized for an untrusted certificate."""
    deadline = loop.now() + timeout_seconds
    name = address_of(endpoint.host, endpoint.port)
    failure: HeadraceError = Unreachable(f"cannot connect to {name}: no address", advice=_ADVICE)
    for family, address in await _resolve(loop, endpoint, deadline):
        try:
            with ExitStack() as undo:
                sock = loop.new_socket(family, socket.SOCK_STREAM)
                undo.callback(sock.close)
                await _connect_socket(loop, sock, address, min(deadline, loop.now() + _CONNECT_SECONDS))
                made = Transport(sock) if tls is None else await encrypt(loop, sock, endpoint, tls, deadline)
                undo.pop_all()
        except TimedOut as error:
            failure = TimedOut(f"cannot connect to {name}: {error.message}", advice=error.advice)
            failure.__cause__ = error
        except (OSError, ValueError, OverflowError) as error:  # brokers may advertise any host and port
            reason = getattr(error, "strerror", None) or error
            failure = Unreachable(f"cannot connect to {name}: {reason}", advice=_ADVICE)
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
        raise TimedOut(f"cannot resolve host {host}: timed out", advice=_ADVICE_HOST) from None
    except (OSError, ValueError) as error:  # a label of the name may be invalid
        reason = getattr(error, "strerror", None) or error
        raise Unreachable(f"cannot resolve host {host}: {reason}", advice=_ADVICE_HOST) from error
    return [(info[0], (str(info[4][0]), endpoint.port)) for info in found]


def _addresses_of(host: str) -> Future[list[Any]]:
    """Resolve a host name. Concurrent callers share one lookup."""
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
    """Run a blocking function in a new thread while the event loop continues, and return its result. Raises
    the errors of the function, and TimeoutError."""
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
        await ready(loop, sock, WRITE, deadline)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
