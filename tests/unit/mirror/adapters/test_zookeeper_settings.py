"""Test the ZooKeeper settings: contradictory security options, ACLs, and secrets in output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mirror.adapters.settings import ZooKeeperSecurity, ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.adapters.zookeeper_access import client_options
from mirror.errors import ConfigError

USER: dict[str, Any] = {"mechanism": "digest", "username": "mirror", "password": "hush-hush"}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"mechanism": "digest"}, "username and password"),
        ({"username": "mirror", "password": "x"}, "username and password"),
        ({"mechanism": "digest", "username": "mirror"}, "username and password"),
        ({"mechanism": "PLAIN", "username": "a", "password": "b"}, "DIGEST-MD5"),
        ({"tls": True, "certificate_file": "a.pem"}, "key_file"),
        ({"ca_file": "a.pem"}, "require tls"),
        ({"verify": False}, "require tls"),
        ({"certificate_file": "a.pem", "key_file": "b.pem"}, "require tls"),
        ({"access": "creator"}, "identity"),
    ],
)
def test_contradictions_are_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ZooKeeperSecurity(**values)


@pytest.mark.parametrize(
    ("values", "is_private"),
    [
        ({}, False),
        (USER, True),
        (USER | {"access": "open"}, False),
        ({"tls": True}, False),
        ({"tls": True, "certificate_file": "a", "key_file": "b"}, False),
        ({"tls": True, "certificate_file": "a", "key_file": "b", "access": "creator"}, True),
    ],
)
def test_nodes_are_for_us_alone_where_we_have_an_identity(values: dict[str, Any], is_private: bool) -> None:
    security = ZooKeeperSecurity(**values)
    assert security.is_private is is_private
    assert ("default_acl" in client_options(security)) is is_private


def test_no_secret_is_printed() -> None:
    settings = ZooKeeperSettings(security=ZooKeeperSecurity(**USER, tls=True, key_password="quiet"))
    assert "hush-hush" not in repr(settings) + str(settings.model_dump(mode="json"))
    assert "quiet" not in repr(settings) + str(settings.model_dump(mode="json"))


def test_the_default_is_an_open_server() -> None:
    assert client_options(ZooKeeperSettings().security) == {}


@pytest.mark.parametrize("keys", [["ca_file"], ["certificate_file", "key_file"]])
def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, keys: list[str]) -> None:
    files: dict[str, Any] = dict.fromkeys(keys, str(tmp_path / "none.pem"))
    security = ZooKeeperSecurity(tls=True, **files)
    with pytest.raises(ConfigError, match=r"none\.pem"):
        ZooKeeper(ZooKeeperSettings(security=security))
