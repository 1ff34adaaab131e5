"""Output of `headrace copy` for an address that does not respond: few lines, and then the error."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from stack.ports import free_ports
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.deep


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


def test_an_address_that_never_answers_is_named_before_it_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        *begun, end = told_by_a_copy(*addresses)
    for line in begun:
        assert "does not respond" in line
    assert len(set(begun)) == len(begun) <= 2
    assert "no response within" in end
    assert any(address in end for address in addresses)
