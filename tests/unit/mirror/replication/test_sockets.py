"""Test connections to addresses that this host cannot use."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.event_loop import Loop
from mirror.client.sockets import connect
from mirror.client.transport import Transport
from mirror.errors import Unreachable
from mirror.protocol.control.cluster import Endpoint

SECONDS = 10.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop(SystemClock())
    yield loop
    loop.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connected(loop: Loop, endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> Transport:
    """Return the connection, or raise the error."""
    opening = loop.spawn(connect(loop, endpoint, tls, SECONDS))
    opening.is_awaited = True
    while not opening.is_done:
        loop.run_once(SECONDS)
    return opening.result()


def new_socket(family: int, kind: int) -> socket.socket:
    """Return a socket, as a kernel without IPv6 does."""
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
    return socket.socket(family, kind)


def test_a_host_without_ipv6_uses_the_next_address_of_a_name(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = (socket.AF_INET6, ("::1", 0, 0, 0)), (socket.AF_INET, ("127.0.0.1", 0))
    found = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in families]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    loop.new_socket = new_socket
    connected(loop, Endpoint("broker.test", listener.getsockname()[1])).close()


def test_a_process_that_may_open_no_more_files_cannot_connect(loop: Loop) -> None:
    def fail(_family: int, _kind: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    loop.new_socket = fail
    with pytest.raises(Unreachable, match="Too many open files"):
        connected(loop, Endpoint("127.0.0.1", 9092))


@pytest.mark.parametrize(
    "endpoint",
    [Endpoint("127.0.0.1", 70_000), Endpoint("a..b", 9092), Endpoint("", 9092), Endpoint("x" * 64, 1)],
)
def test_an_address_that_cannot_be_is_out_of_reach(loop: Loop, endpoint: Endpoint) -> None:
    with pytest.raises(Unreachable, match="cannot"):
        connected(loop, endpoint)


def test_a_name_that_no_certificate_can_have_is_out_of_reach(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    with pytest.raises(Unreachable, match="cannot connect"):
        connected(loop, Endpoint(".test", listener.getsockname()[1]), ssl.create_default_context())
