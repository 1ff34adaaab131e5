"""Test `headrace datastream lost`, `restore` and `forget`."""

from __future__ import annotations

import json

import pytest

from mirror.coordination.stores import znodes
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace


@pytest.fixture
def wiped(site: Site) -> Site:
    """Return a service that has lost two datastreams."""
    for name in ("a", "b"):
        site.create(name, destination={"cluster": "destination", "name": f"{name}.*"})
    site.server.session().delete_tree(znodes.DATASTREAMS)
    site.tick()
    return site


def stored(site: Site) -> list[str]:
    return list(site.definitions.names())


def test_what_is_lost_is_a_table_or_json(wiped: Site, headrace: Headrace) -> None:
    assert "b.*" in headrace("datastream", "lost").out
    assert [one["name"] for one in json.loads(headrace("datastream", "lost", "--json").out)] == ["a", "b"]


def test_one_is_restored_and_another_dropped(wiped: Site, headrace: Headrace) -> None:
    assert headrace("datastream", "restore", "a", "--dry-run").code == 0
    assert headrace("datastream", "forget", "b", "--dry-run").code == 0
    assert stored(wiped) == []
    assert headrace("datastream", "restore", "a").code == 0
    assert headrace("datastream", "forget", "b").code == 0
    assert stored(wiped) == ["a"]
    wiped.tick()
    assert json.loads(headrace("datastream", "lost", "--json").out) == []


def test_all_are_restored(wiped: Site, headrace: Headrace) -> None:
    shown = headrace("datastream", "restore", "--all", "--json")
    assert [one["name"] for one in json.loads(shown.out)] == ["a", "b"]
    assert stored(wiped) == ["a", "b"]


def test_all_are_dropped(wiped: Site, headrace: Headrace) -> None:
    assert headrace("datastream", "forget", "--all").code == 0
    wiped.tick()
    assert stored(wiped) == []
    assert wiped.health.is_well


def test_one_that_is_refused_stops_no_other(wiped: Site, headrace: Headrace) -> None:
    wiped.create("rival", destination={"cluster": "destination", "name": "a.*"})
    shown = headrace("datastream", "restore", "--all")
    assert shown.code == 1
    assert "a:" in shown.err
    assert stored(wiped) == ["b", "rival"]


@pytest.mark.parametrize("command", ["restore", "forget"])
@pytest.mark.parametrize("arguments", [(), ("a", "--all")])
def test_a_name_or_all_is_given(
    wiped: Site, headrace: Headrace, command: str, arguments: tuple[str, ...]
) -> None:
    shown = headrace("datastream", command, *arguments)
    assert shown.code != 0
    assert stored(wiped) == []
