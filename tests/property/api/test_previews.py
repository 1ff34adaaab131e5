"""Dry runs return the plan of the leader, with its loads, whichever instance is queried."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import httpx
import pytest

from assigner.planner import LoadPlanner
from assigner.settings import AssignerSettings
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.model.identifiers import InstanceName
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.examples import examples
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site, settle

SAMPLER: Final = InstanceName("sampler")
PLACES: Final = [TopicPartition("t", number) for number in range(8)]
DRY: Final = {"datastream": "orders", "dry_run": True}


@pytest.fixture
def pair() -> tuple[Site, Site]:
    """Return two instances that plan by load; the first one leads."""
    server = FakeZooKeeper()
    one, two = (Site(server, name, LoadPlanner(AssignerSettings().policy())) for name in ("one", "two"))
    for site in (one, two):
        site.source.grow("t", len(PLACES))
    settle(one, two)
    one.create()
    settle(one, two)
    return one, two


def measure(site: Site, random: Random) -> None:
    """Publish samples of some partitions, or withdraw them all."""
    store = MeasuredLoads(site.session)
    store.withdraw(SAMPLER)
    if random.random() < 0.6:
        some = random.sample(PLACES, random.randint(1, len(PLACES)))
        rates = {one: (random.choice([0.0, 5.0, 20.0, 60.0, 85.0]), 1.0) for one in some}
        store.publish(SAMPLER, InstanceMeasurements({SOURCE: rates}), site.clock.now_ms())


def without_id(plan: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key not in {"id", "expires_ms"}}


def test_a_followers_dry_run_is_the_leaders_whatever_is_away(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    random = Random(39)
    for number in range(examples(100)):
        measure(leader, random)
        if random.random() < 0.4:
            leader.client.post("/v1/rebalance", json={"datastream": "orders", "full": random.random() < 0.3})
            settle(leader, follower)
        asked = {**DRY, "full": random.random() < 0.3}
        answers = [site.client.post("/v1/rebalance", json=asked).json() for site in (follower, leader)]
        assert answers[0] == answers[1], number
        body = {"full": asked["full"]}
        plans = [site.client.post("/v1/datastreams/orders/plan", json=body) for site in (follower, leader)]
        assert [one.status_code for one in plans] == [201, 201]
        assert without_id(plans[0].json()) == without_id(plans[1].json()), number


def measured_then_away(leader: Site, follower: Site) -> None:
    rates = dict.fromkeys(PLACES, (20.0, 1.0))
    MeasuredLoads(leader.session).publish(
        SAMPLER, InstanceMeasurements({SOURCE: rates}), leader.clock.now_ms()
    )
    leader.client.post("/v1/rebalance", json={"datastream": "orders"})
    settle(leader, follower)
    MeasuredLoads(leader.session).withdraw(SAMPLER)


def test_without_the_leader_it_says_so_and_a_plan_without_loads_is_not_applied(
    pair: tuple[Site, Site],
) -> None:
    leader, follower = pair
    measured_then_away(leader, follower)

    async def refuse() -> None:
        raise httpx.ConnectError("connection refused")

    follower.neighbours.failures["one.test"] = refuse
    found = follower.client.post("/v1/rebalance", json={**DRY, "full": True}).json()
    assert found["loads_known"] is False
    assert "connection refused" in found["reasons"][-1]
    assert found["moves"] == []
    plan = follower.client.post("/v1/datastreams/orders/plan", json={"full": True}).json()
    assert plan["loads_known"] is False
    path = f"/v1/plans/{plan['id']}/apply"
    answer = follower.client.post(path, json={})
    assert (answer.status_code, answer.json()["kind"]) == (409, "IllegalTransition")
    assert follower.client.post(path, json={"force": True}).status_code == 202
