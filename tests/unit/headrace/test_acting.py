"""`headrace acting`: the switch of monitors, as people use it."""

from __future__ import annotations

import json

from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace


def test_a_person_forbids_acting_and_allows_it_again(site: Site, headrace: Headrace) -> None:
    shown = headrace("acting")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == [
        "acting of monitors is on",
        "judges: no monitor",
        "0 rebalances asked for in 24 hours",
    ]
    off = headrace("acting", "off", "--reason", "a migration", "--by", "alice")
    assert off.out.splitlines()[0] == "acting of monitors is off by alice: a migration"
    assert not site.services.acting.state().switch.is_on
    found = json.loads(headrace("acting", "on", "--json").out)
    assert (found["acting"]["is_on"], found["acting"]["reason"]) == (True, "")
    assert headrace("acting", "perhaps").code == 2


def test_what_waits_is_shown(site: Site, headrace: Headrace) -> None:
    site.create()
    lease = site.client.put("/v1/monitor/lease", json={"holder": "me"}).json()["lease"]
    site.client.post("/v1/rebalance", json={"datastream": "orders", "lease": lease})
    lines = headrace("acting").out.splitlines()
    assert lines[1:] == [
        "judges: me",
        "the rebalance of orders waits for its plan",
        "1 rebalance asked for in 24 hours",
    ]
