"""Test references to clusters: aliases and bootstrap servers."""

from __future__ import annotations

import pytest

from mirror.errors import InvalidRequest
from mirror.model.clusters import bootstrap_servers, checked_cluster, server_addresses


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("host:9092", [("host", 9092)]),
        ("a.b-c_d:1, 10.0.0.1:65535", [("a.b-c_d", 1), ("10.0.0.1", 65_535)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_and_ports(text: str, servers: list[tuple[str, int]]) -> None:
    assert list(bootstrap_servers("the source", text)) == servers
    assert checked_cluster("the source", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a:b",
        "host:9092,",
        ",host:9092",
        "host:0",
        "host:70000",
        "host:-1",
        "host:٣",
        ":9092",
        "host:",
        "host,other:1",
        "::1:9092",
        "[x]:9092",
        "kafka://host:9092",
        "a b:9092",
        "-a:9092",
        "h" * 300 + ":9092",
        "host:9092," * 1_000 + "host:9092",
        "",
        " source",
        "a\nb",
        "x" * 201,
    ],
    ids=lambda text: text[:30],
)
def test_what_cannot_be_connected_to_is_refused_by_its_role(text: str) -> None:
    with pytest.raises(InvalidRequest, match="the source") as caught:
        checked_cluster("the source", text)
    assert len(str(caught.value)) < 400


def test_an_alias_is_any_plain_text() -> None:
    assert checked_cluster("the source", "west europe 1") == "west europe 1"


def test_what_may_be_a_password_in_an_address_is_not_repeated() -> None:
    for text in ("kafka://me:hunter2@host:9092", "me:hunter2@host:9092", "host:9092,me:hunter2@other:1"):
        with pytest.raises(InvalidRequest, match="credentials") as caught:
            checked_cluster("the source", text)
        assert "hunter2" not in str(caught.value)


def test_servers_that_are_no_brokers_have_no_aliases() -> None:
    assert list(server_addresses("zookeeper.servers", "a:1, [::1]:2")) == [("a", 1), ("::1", 2)]
    with pytest.raises(InvalidRequest, match="address") as refused:
        server_addresses("zookeeper.servers", "b:1,a")
    assert "alias" not in refused.value.advice
