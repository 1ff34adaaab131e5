"""Switch-overs of a whole service between fake clusters that cannot succeed: each ends with the reason, and
leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.dr.datastreams import body_of
from headrace.dr.state_store import store_of
from headrace.settings import load_settings
from tests.e2e.pair_site import TOPIC, Site, pair_site
from tests.fakes.broker.batches import Content
from tests.fakes.broker.faults import Code
from tests.patience import wait_until

pytestmark = pytest.mark.deep

CREATE_ACLS: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
MORE: Final = f"{TOPIC}-more"
RECORDS: Final[list[Content]] = [(1_000 + number, b"k", b"%d" % number, []) for number in range(5)]
Obstacle = Callable[[Site], Iterator[None]]


def rights_are_missing(site: Site) -> Iterator[None]:
    site.east.faults.plant(CREATE_ACLS, Code(CLUSTER_AUTHORIZATION_FAILED), times=None)
    yield
    site.east.faults.clear()


def a_topic_is_on_one_side(site: Site) -> Iterator[None]:
    """An operator creates the topic on the other side, which takes effect sooner than the next attempt."""
    site.west.create_policy = lambda name, _settings: "no such topic here" if name == MORE else ""
    with site.east.lock:
        site.east.create_topic(MORE)
    yield
    site.west.create_policy = None
    with site.west.lock:
        site.west.create_topic(MORE)


def a_partition_count_differs(site: Site) -> Iterator[None]:
    with site.west.lock:
        site.west.grow_topic(TOPIC, 3)
    yield
    with site.east.lock:
        site.east.grow_topic(TOPIC, 3)


def a_group_has_members(site: Site) -> Iterator[None]:
    site.east.groups["billing"] = {(TOPIC, 0): 1}
    site.west.group_states["billing"] = ("Classic", "Stable")
    yield
    del site.west.group_states["billing"]


def a_transaction_is_open(site: Site) -> Iterator[None]:
    with site.east.lock:
        end = site.east.write_in_transaction(TOPIC, RECORDS)
    yield
    with site.east.lock:
        end(commit=True)


def the_standby_is_down(site: Site) -> Iterator[None]:
    site.west.take_down(1)
    yield
    site.west.bring_up(1)


OBSTACLES: Final[dict[str, Obstacle]] = {
    "Alter": rights_are_missing,
    "billing": a_group_has_members,
    "transaction": a_transaction_is_open,
    MORE: a_topic_is_on_one_side,
    "partitions": a_partition_count_differs,
    "west": the_standby_is_down,
}
"""Obstacles by a word of the reason."""


def test_an_obstacle_is_named_and_everything_remains_as_it_was(tmp_path: Path) -> None:
    with pair_site(tmp_path) as site:
        with site.east.lock:
            site.east.write(TOPIC, RECORDS)
        before = definition_of(site)
        for word, obstacle in OBSTACLES.items():
            with contextmanager(obstacle)(site):
                words = ("dr", "switchover", "pair", "--to", "west", "--deadline", "10s")
                undone = site.run(*words, code=1)
            assert word in undone["failure"]
            assert undone["active"] == "east"
            assert not [*site.east.acls, *site.west.acls]
            status = site.run("dr", "status", "pair")
            assert (status["active"], status["operation"]) == ("east", None)
            wait_until(site.is_ready, f"the pair is ready again after {word!r}")
            assert definition_of(site) == before
        wait_until(partial(is_copied, site), "the copy continues")


def definition_of(site: Site) -> dict[str, Any]:
    return body_of(site.instance.rest.get("/v1/datastreams/over"))


def is_copied(site: Site) -> bool:
    return site.values(site.east) == site.values(site.west) != []


def test_a_second_operator_and_a_second_drill_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command occupies the store of pairs beside the embedded store."""
    with pair_site(tmp_path) as site:
        for name, value in site.instance.environment.items():
            monkeypatch.setenv(name, value)
        with store_of(load_settings(), "headrace dr", reads_only=False):
            site.run("dr", "switchover", "pair", "--to", "west", code=1)
            site.run("dr", "drill", "pair", "--for", "1s", code=1)
        assert not [*site.east.acls, *site.west.acls]
        assert site.run("dr", "status", "pair")["history"] == []
