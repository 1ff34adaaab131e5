"""Test the errors of a REST listener that cannot be bound."""

from __future__ import annotations

import errno
import socket

import pytest

from headrace.process import rest
from headrace.process.rest import RestServer
from mirror.errors import ConfigError


def test_a_port_in_use_advises_another_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^cannot bind 127\.0\.0\.1:{port}: .*with api\.port$"):
            RestServer("127.0.0.1", port).bind()


def test_an_address_of_another_host_advises_another_host() -> None:
    with pytest.raises(ConfigError, match=r"^cannot bind 192\.0\.2\.1:0: .*with api\.brooklin\.host$"):
        RestServer("192.0.2.1", 0, key="api.brooklin.port").bind()


def test_a_privileged_port_advises_a_higher_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Privileged(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rest, "unbound_listener", lambda _: Privileged())
    with pytest.raises(ConfigError, match=r"choose a port above 1023 with api\.port$"):
        RestServer("127.0.0.1", 80).bind()
