"""Test `headrace groups`."""

from __future__ import annotations

import json

import pytest

from tests.fakes.site import Site
from tests.unit.api.test_consumer_groups import with_groups
from tests.unit.headrace.conftest import Headrace


@pytest.fixture
def followed(site: Site) -> Site:
    return with_groups(site)


@pytest.mark.parametrize("command", ["list", "lag"])
def test_the_commands_show_all_groups(followed: Site, headrace: Headrace, command: str) -> None:
    shown = headrace("groups", command, "orders")
    assert shown.code == 0
    assert [text in shown.out for text in ("audit/eu", "members there", "old")] == [True, True, False]
    document = json.loads(headrace("groups", command, "orders", "--json").out)
    assert [one["group"] for one in document["groups"]] == ["audit/eu", "billing"]


def test_the_command_explains_a_group(followed: Site, headrace: Headrace) -> None:
    shown = headrace("groups", "explain", "orders", "audit/eu")
    assert (shown.code, "members there" in shown.out) == (0, True)
    assert json.loads(headrace("groups", "explain", "orders", "billing", "--json").out)["follows"]
    assert headrace("groups", "explain", "orders", "none").code != 0
    assert headrace("groups", "explain", "orders", "..").code != 0
