"""Test that kazoo still has the private methods that `zookeeper_access` overrides."""

from __future__ import annotations

import inspect

import pytest
from kazoo.client import KazooClient

CONNECTION = type(KazooClient()._connection)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("_authenticate_with_sasl", ["self", "host", "timeout"]),
        ("_submit", ["self", "request", "timeout", "xid"]),
        ("_read_header", ["self", "timeout"]),
    ],
)
def test_kazoos_connection_has_the_private_methods_that_sasl_needs(name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(CONNECTION, name)).parameters) == parameters


def test_kazoo_connects_through_its_handler_and_has_one_connection() -> None:
    client = KazooClient()
    assert client._connection.sasl_options is None
    assert callable(client.handler.create_connection)
    assert "self.handler.create_connection(" in inspect.getsource(CONNECTION._connect)
