"""Output of `headrace copy` for an address that does not respond: one line at first, one at the end."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from stack.ports import free_ports
from tests.copies import Clusters, records
from tests.engines import write
from tests.kafka_data import make_topic
from tests.patience import PATIENCE_SECONDS
from tests.servers import KafkaPair

pytestmark = pytest.mark.deep


@contextmanager
def forwarding(port: int, address: str) -> Iterator[None]:
    """Forward connections at the port to the address."""
    host, _, number = address.rpartition(":")
    over = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(0.1)

        def pump(ends: list[socket.socket]) -> None:
            with ends[0], ends[1], suppress(OSError):
                while not over.is_set():
                    for end in select.select(ends, [], [], 0.1)[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end is ends[0]].sendall(data)

        def accept() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    here = listener.accept()[0]
                    there = socket.create_connection((host, int(number)))
                    threading.Thread(target=pump, args=([here, there],)).start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield
        finally:
            over.set()
            acceptor.join()


def started(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def told_by_a_copy(source: str, destination: str) -> list[str]:
    """Return the output lines of a copy that gives up."""
    sides = ["--source", source, "--destination", destination]
    command = [sys.executable, "-m", "headrace", "copy", "--topics", "x", "--rename", "y*", *sides]
    with started(command, HEADRACE_MIRROR__COPYING__REQUEST_TIMEOUT_SECONDS="7") as process:
        assert process.stderr is not None
        lines = [line for line in process.stderr.read().splitlines() if line]
        assert process.wait(PATIENCE_SECONDS) == 1, lines
    return lines


def test_a_refusing_address_is_named_once_before_it_is_given_up() -> None:
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))
    *begun, end = told_by_a_copy(one, two)
    assert begun, "no output before the end"
    for line in begun:
        assert "Connection refused" in line
    assert len(set(begun)) == len(begun) <= 2
    assert end.startswith("headrace: ")
    assert one in end or two in end


def test_an_address_that_never_answers_is_named_once_before_it_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        *begun, end = told_by_a_copy(*(f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)))
    assert begun, "no output before the end"
    for line in begun:
        assert "does not respond" in line
    assert len(set(begun)) == len(begun) <= 2
    assert "accepts connections" in end


@pytest.mark.servers
def test_an_address_that_answers_later_is_two_lines_and_the_copy_goes_on(
    kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    clusters = Clusters(kafka_pair, tmp_path)
    topic = f"{clusters.prefix}-late"
    make_topic(clusters.source, topic, 2)
    write(clusters.source, topic, records(20, 2))
    real, port = clusters.source, free_ports(1)[0]
    clusters.source = f"127.0.0.1:{port}"
    with ExitStack() as stack:
        process = stack.enter_context(started(clusters.command("copy", "--until-end")))
        assert process.stderr is not None
        first = process.stderr.readline()
        assert f"127.0.0.1:{port}: Connection refused" in first
        stack.enter_context(forwarding(port, real))
        told = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == 0, told
    about = [line for line in told.splitlines() if f"127.0.0.1:{port}" in line]
    assert len(about) == 1, told
    assert "broker available again" in about[0]
