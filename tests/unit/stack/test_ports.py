"""Ports: defaults, free ones, and the user of a busy one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict

import psutil
import pytest

from stack import ports
from stack.errors import PortTaken
from stack.ports import StackPorts, free_ports


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        yield opened


def test_the_defaults_are_those_of_the_settings() -> None:
    defaults = StackPorts()
    assert (defaults.zookeeper, defaults.source, defaults.destination) == (2181, 9092, 9192)
    assert (defaults.pinot_controller, defaults.pinot_broker) == (9000, 9001)


def test_no_port_is_given_twice() -> None:
    for offset in (0, 1, 1000):
        every = asdict(StackPorts().shifted(offset)).values()
        assert len(set(every)) == len(every)
    assert StackPorts().shifted(7).pinot_admin == StackPorts().pinot_admin + 7


def test_free_ports_differ_and_can_be_bound() -> None:
    found = free_ports(40)
    assert len(set(found)) == 40
    assert all(map(ports.is_free, found))
    assert not set(found) & set(free_ports(40))
    assert len(set(asdict(StackPorts.free()).values())) == 10


def test_another_process_does_not_get_ours() -> None:
    mine = set(free_ports(200))
    program = "from stack.ports import free_ports; print(*free_ports(200))"
    theirs = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not mine & {int(word) for word in theirs.stdout.split()}


def test_a_port_is_reserved_once_and_only_when_it_is_free(listener: socket.socket) -> None:
    assert not ports.reserve(listener.getsockname()[1])
    assert not ports.reserve(free_ports(1)[0])


def test_free_ports_lie_where_outgoing_connections_do_not() -> None:
    with socket.socket() as outgoing:
        outgoing.bind(("127.0.0.1", 0))
        assert max(free_ports(20)) < outgoing.getsockname()[1]


def test_a_busy_port_names_its_user(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert not ports.is_free(port)
    me = f"{psutil.Process().name()} (process {os.getpid()})"
    assert ports.owner_of([port]) == me
    with pytest.raises(PortTaken) as caught:
        ports.require_free("source", {"clients": free_ports(1)[0], "controllers": port}, "do this")
    assert caught.value.advice == "do this"
    assert caught.value.message.startswith(f"port {port}, ")
    assert caught.value.message.endswith(f" by {me}")
    assert "(controllers)" in caught.value.message


@pytest.mark.parametrize("port", [0, -1, 65536, 79092])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(PortTaken, match="1 to 65535"):
        ports.require_free("source", {"clients": port}, "")


def test_nobody_sits_on_a_free_port() -> None:
    assert ports.owner_of(free_ports(1)) is None
