"""Test that settings that send credentials without TLS are reported."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.clusters.plain_credentials import plain_credentials
from headrace.settings import HeadraceSettings
from tests.unit.headrace.conftest import Headrace, Write

PASSWORD = {"username": "u", "password": "correct horse"}


def kafka(protocol: str, mechanism: str = "", servers: str = "kafka-1:9092,kafka-2:9092", **more: Any) -> Any:
    security = {"protocol": protocol, "mechanism": mechanism, **more}
    return {"clusters": {"east": {"bootstrap_servers": servers, "security": security}}}


def zookeeper(servers: str, mechanism: str, **more: Any) -> Any:
    return {"zookeeper": {"servers": servers, "security": {"mechanism": mechanism, **PASSWORD, **more}}}


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (kafka("SASL_PLAINTEXT", "PLAIN", **PASSWORD), "clusters.east"),
        (kafka("SASL_PLAINTEXT", "OAUTHBEARER", token_file="/token"), "clusters.east"),
        (zookeeper("zk-1:2181", "digest"), "zookeeper"),
        ({"pinot": {"broker": "pinot:8099", **PASSWORD}}, "pinot"),
    ],
)
def test_each_kind_is_reported(settings: dict[str, Any], place: str) -> None:
    (warning,) = plain_credentials(HeadraceSettings(**{"clusters": {}, **settings}))
    assert place in warning
    assert "TLS" in warning
    assert PASSWORD["password"] not in warning


@pytest.mark.parametrize(
    "settings",
    [
        kafka("PLAINTEXT"),
        kafka("SASL_SSL", "PLAIN", **PASSWORD),
        kafka("SASL_PLAINTEXT", "SCRAM-SHA-512", **PASSWORD),
        kafka("SASL_PLAINTEXT", "PLAIN", "127.0.0.1:9092,[::1]:9092", **PASSWORD),
        zookeeper("zk-1:2181", "digest", tls=True),
        zookeeper("zk-1:2181", "DIGEST-MD5"),
        {"pinot": {"broker": "pinot:8099", "tls": True, **PASSWORD}},
        {"pinot": PASSWORD},
    ],
)
def test_what_nobody_can_read_on_the_way_is_not(settings: dict[str, Any]) -> None:
    assert not list(plain_credentials(HeadraceSettings(**{"clusters": {}, **settings})))


def test_the_check_of_the_settings_warns(headrace: Headrace, write: Write) -> None:
    file = write(
        '[clusters.east]\nbootstrap_servers = "kafka:9092"\n[clusters.east.security]\n'
        'protocol = "SASL_PLAINTEXT"\nmechanism = "PLAIN"\nusername = "u"\npassword = "correct horse"\n'
        '[clusters.EAST]\nbootstrap_servers = "other:9092"\n'
    )
    shown = headrace("config", "check", "--config", str(file), "--json")
    assert shown.code == 0
    assert "SAME NAME: clusters" in shown.err
    assert any("PLAIN TEXT" in line and "clusters.east" in line for line in shown.err.splitlines())
