"""Addresses of servers: joining and splitting of host and port."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.settings import HeadraceSettings
from mirror.model.clusters import address_of, is_address, server_addresses
from mirror.settings import KafkaCluster

HOSTS = st.one_of(
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=4).map(str),
    st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{1,5})?", fullmatch=True),
)
PORTS = st.integers(1, 65_535)


@given(HOSTS, PORTS)
def test_an_address_is_read_as_it_was_joined(host: str, port: int) -> None:
    address = address_of(host, port)
    assert server_addresses("it", address) == ((host, port),)
    assert is_address(address)
    assert address_of(f"[{host}]", port) == address or ":" not in host


@given(st.lists(st.tuples(HOSTS, PORTS), min_size=1, max_size=4))
def test_a_list_of_addresses_is_read_as_it_was_joined(servers: list[tuple[str, int]]) -> None:
    assert server_addresses("it", ",".join(address_of(*one) for one in servers)) == tuple(servers)


@given(HOSTS, PORTS)
def test_commands_accept_the_address_of_their_own_settings(host: str, port: int) -> None:
    clusters = {"a": KafkaCluster(bootstrap_servers="a:1")}
    settings = HeadraceSettings(clusters=clusters, api={"host": host, "port": port})
    assert server_addresses("it", settings.service_address()) == ((host, port),)
