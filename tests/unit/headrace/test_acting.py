"""Test `headrace acting`, the switch that allows monitors to act."""

from __future__ import annotations

import json

from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace


def test_a_person_forbids_acting_and_allows_it_again(site: Site, headrace: Headrace) -> None:
    shown = headrace("acting")
    assert shown.code == 0, shown.err
    first, monitor, acts = shown.out.splitlines()
    assert first.endswith("is on")
    assert "no monitor" in monitor
    assert acts.startswith("0 rebalances")
    off = headrace("acting", "off", "--reason", "a migration", "--by", "alice")
    assert all(fact in off.out.splitlines()[0] for fact in (" off ", "alice", "a migration"))
    stored = site.services.acting.state().switch
    assert (stored.is_on, stored.reason, stored.requested_by) == (False, "a migration", "alice")
    found = json.loads(headrace("acting", "on", "--json").out)
    assert (found["acting"]["is_on"], found["acting"]["reason"]) == (True, "")
    assert headrace("acting", "perhaps").code == 2


def test_what_waits_is_shown(site: Site, headrace: Headrace) -> None:
    site.create()
    lease = site.client.put("/v1/monitor/lease", json={"holder": "me"}).json()["lease"]
    site.client.post("/v1/rebalance", json={"datastream": "orders", "lease": lease})
    _, monitor, waiting, acts = headrace("acting").out.splitlines()
    assert monitor.endswith("by me")
    assert "plan" in waiting
    assert "orders" in waiting
    assert acts.startswith("1 rebalance ")
