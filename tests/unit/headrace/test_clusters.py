"""Test the resolution of cluster references with the settings."""

from __future__ import annotations

import pytest

from headrace.clusters.directory import ClusterDirectory
from mirror.errors import ConfigError
from mirror.model.identifiers import ClusterRef
from mirror.settings import KafkaCluster, KafkaSecurity

SECURED = KafkaCluster(bootstrap_servers="a:1, b:2", security=KafkaSecurity(protocol="SSL"))
DIRECTORY = ClusterDirectory({"secured": SECURED, "plain": KafkaCluster(bootstrap_servers="c:3")})


def test_an_alias_is_what_the_settings_say() -> None:
    assert DIRECTORY.resolve(ClusterRef("secured")) is SECURED
    assert DIRECTORY.address_of(ClusterRef("secured")) == "a:1, b:2"
    assert DIRECTORY.aliases == {"secured", "plain"}


def test_an_address_stands_for_itself_without_security() -> None:
    found = DIRECTORY.resolve(ClusterRef("x:9092"))
    assert found.bootstrap_servers == "x:9092"
    assert found.security == KafkaCluster(bootstrap_servers="x:9092").security
    assert DIRECTORY.address_of(ClusterRef("x:9092")) == "x:9092"


@pytest.mark.parametrize(
    ("address", "alias"),
    [
        ("a:1", "secured"),
        ("b:2,a:1", "secured"),
        ("B:2", "secured"),
        (" z:9 , b:2", "secured"),
        ("c:3", "plain"),
        ("c:33", "c:33"),
        ("a:1,c:3", "a:1,c:3"),
        ("c:3,a:1,evil:9092", "c:3,a:1,evil:9092"),
        ("secured", "secured"),
        ("", ""),
    ],
)
def test_any_server_of_a_cluster_gives_its_alias(address: str, alias: str) -> None:
    assert DIRECTORY.of_address(address) == alias


def test_of_clusters_with_one_server_the_one_that_has_all_is_meant() -> None:
    near = ClusterDirectory(
        {
            "first": KafkaCluster(bootstrap_servers="a:1,b:2"),
            "second": KafkaCluster(bootstrap_servers="a:1,b:2,c:3"),
        }
    )
    assert near.of_address("a:1") == "first"
    assert near.of_address("a:1,c:3") == "second"
    assert near.of_address("a:1,x:9") == "a:1,x:9"


def test_credentials_go_to_the_addresses_of_the_settings_only() -> None:
    for address in ("evil:9092", "a.:1", "evil:9092,c:3,a:1"):
        assert DIRECTORY.resolve(DIRECTORY.of_address(address)).security == KafkaSecurity()
    for address in ("a:1", "evil:9092,a:1"):
        assert DIRECTORY.resolve(DIRECTORY.of_address(address)) is SECURED


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("a.example.com:9092", True),
        ("a.example.com:9092,b.example.com:9092", True),
        ("a.example.com:9092,elsewhere:9092", False),
        ("a.example.com:22", False),
        ("a.example.com:9092:9092", False),
        ("gone", False),
    ],
)
def test_an_address_that_definitions_may_not_name_is_not_reached(address: str, is_allowed: bool) -> None:
    """Even an address stored while it was allowed is rejected."""
    directory = ClusterDirectory({}, ["*.example.com:9092"])
    assert directory.address_of(ClusterRef(address)) == address
    if is_allowed:
        assert directory.resolve(ClusterRef(address)).bootstrap_servers == address
    else:
        with pytest.raises(ConfigError):
            directory.resolve(ClusterRef(address))
