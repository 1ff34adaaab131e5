"""Test that `headrace config check` reports nodes that settings leave open in ZooKeeper."""

from __future__ import annotations

import pytest

from headrace.process.open_nodes import openness
from mirror.adapters.settings import ZooKeeperSecurity, ZooKeeperSettings
from tests.unit.headrace.conftest import Headrace

DIGEST = {"mechanism": "digest", "username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("security", "is_open"), [({}, True), (DIGEST, False), (DIGEST | {"access": "open"}, True)]
)
def test_settings_without_an_identity_leave_zookeeper_open(security: dict[str, str], is_open: bool) -> None:
    settings = ZooKeeperSettings(root="/prod", security=ZooKeeperSecurity(**security))
    said = openness(settings)
    assert bool(said) == is_open
    if is_open:
        assert said.startswith("OPEN: ")
        assert "127.0.0.1:2181" in said
        assert "/prod" in said


def test_the_check_of_the_settings_says_so_beside_its_answer(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "OPEN" not in headrace("config", "check", "--json").err
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__SERVERS", "127.0.0.1:2181")
    shown = headrace("config", "check", "--json")
    assert (shown.code, shown.out[:1]) == (0, "{")
    assert shown.err.startswith("OPEN: ")
