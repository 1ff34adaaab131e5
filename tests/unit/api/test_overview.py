"""Test /v1/overview: sums over the partitions of all instances; missing values make a sum unknown."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

import pytest
from httpx import ConnectError

from api.resources.topic_sums import TopicSums, own_sums, sums_document, sums_read
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.errors import InvalidRequest, Unreachable
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.metrics import SHOWN_OF_LANES
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import LaneRate
from monitor.records.record import BudgetCost, IncidentRecord
from tests.builders import SOURCE, a_datastream, a_key
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site, settle, two_sites
from tests.unit.api.guarded import Guarded

SHOWN = tuple(
    {"batches": 1.0, "passthrough_batches": 3.0, "wait_ms": 40.0, "fetch_ms": 8.0, "produce_ms": 20.0}.get(
        name, 0.0
    )
    for name in SHOWN_OF_LANES
)


def say(site: Site, name: str, lag_records: int = 7, lag_ms: int | None = 1_500) -> None:
    """Report a measurement of one partition of the group `orders` by a worker of the site."""
    rate = LaneRate(a_key(name), SOURCE, 1_000.0, 10.0, lag_records, lag_ms, SHOWN)
    for key, lane in site.services.status.lanes.items():
        if str(key.partition) == name:
            lane.track.note(rate, site.clock.monotonic(), None)


def test_hot_partitions_are_counted_by_the_loads_of_now_whichever_is_asked() -> None:
    server = FakeZooKeeper()
    one, two = Site(server, "one", usable=100), Site(server, "two", usable=100)
    settle(one, two)
    one.create()
    settle(one, two)
    assert glance(two)["hot"] is None, "nothing was measured yet"
    assert glance(two)["usable_bytes_per_second"] == 90
    for rates, hot in (((44.0, 45.0), 1), ((20.0, 30.0), 0), ((90.0, 110.0), 2)):
        measured = {TopicPartition("t", number): (rate, 1.0) for number, rate in enumerate(rates)}
        MeasuredLoads(one.session).publish(
            InstanceName("one"), InstanceMeasurements({SOURCE: measured}), one.clock.now_ms()
        )
        one.tick(4)
        assert glance(two)["hot"] == glance(one)["hot"] == hot
        rows = two.client.get("/v1/datastreams/orders/loads").json()["partitions"]
        assert sum(row["is_hot"] for row in rows) == hot

    async def refuse() -> None:
        raise ConnectError("connection refused")

    two.neighbours.failures["one.test"] = refuse
    assert glance(two)["hot"] is None, "only the leader has the loads"


def glance(site: Site, **query: Any) -> dict[str, Any]:
    answer = site.client.get("/v1/overview", params=query)
    assert answer.status_code == 200, answer.text
    (one,) = answer.json()["datastreams"]
    return dict(one)


def test_rates_and_lags_are_added_up_over_lanes_and_instances() -> None:
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    assert len(one.services.status.lanes) == len(two.services.status.lanes) == 1
    for site in (one, two):
        (key,) = site.services.status.lanes
        say(site, str(key.partition), lag_ms=1_500 if site is one else 2_500)
    for asked in (one, two):
        found = glance(asked)
        assert (found["partitions"], found["not_copied"], found["tasks"]) == (2, 0, 2)
        assert (found["bytes_per_second"], found["lag_records"], found["oldest_ms"]) == (2_000.0, 14, 2_500)
        assert found["latency"] == {"source": 10.0, "fetch": 2.0, "queue": 0.0, "produce": 5.0}


def test_what_a_task_may_carry_is_what_its_plan_was_made_with(site: Site) -> None:
    site.create()
    assert glance(site)["usable_bytes_per_second"] is None  # this instance does not place by load
    by_load = Site(site.server, "two", usable=7)
    assert glance(by_load)["usable_bytes_per_second"] == 90


def test_the_lag_is_unknown_while_nothing_reports_the_partitions(site: Site) -> None:
    site.create()
    for name in ("t-0", "t-1"):
        say(site, name, 0, 0)
    assert glance(site)["lag_records"] == 0
    site.client.post("/v1/datastreams/orders/pause", json={})
    site.follower.run_loop()
    site.follower.workers.drain()
    site.follower.run_loop()
    found = glance(site)  # the lanes have ended, and the leader has not listed the partitions yet
    assert found["partitions"] == 0
    assert [found[name] for name in ("lag_records", "oldest_ms", "bytes_per_second")] == [None] * 3


def test_what_was_not_measured_makes_sums_unknown_and_is_no_zero(site: Site) -> None:
    site.create()
    found = glance(site)
    unknown = ("bytes_per_second", "lag_records", "oldest_ms", "at_least_ms", "latency", "budget_left")
    assert [found[name] for name in unknown] == [None] * len(unknown)
    say(site, "t-0")
    found = glance(site)
    assert (found["bytes_per_second"], found["oldest_ms"], found["at_least_ms"]) == (None, None, 1_500)
    say(site, "t-1", lag_records=3, lag_ms=None)
    found = glance(site)
    assert (found["bytes_per_second"], found["oldest_ms"]) == (2_000.0, None)


def test_a_record_of_before_the_creation_counts_against_no_objective(site: Site) -> None:
    site.create()
    for name in ("t-0", "t-1"):
        say(site, name, lag_ms=60_000)
    found = glance(site)
    assert (found["oldest_ms"], found["counted_ms"]) == (60_000, None)
    site.clock.advance(60)
    say(site, "t-0", lag_ms=75_000)
    say(site, "t-1", lag_ms=1_500)
    found = glance(site)
    assert (found["oldest_ms"], found["counted_ms"]) == (75_000, 1_500)


def test_an_instance_that_is_silent_is_named_and_its_part_is_not_taken_for_nothing() -> None:
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    (key,) = one.services.status.lanes
    say(one, str(key.partition))

    async def dead() -> None:
        raise ConnectError("nobody listens there")

    one.neighbours.failures["two.test"] = dead
    answer = one.client.get("/v1/overview").json()
    assert (answer["silent_instances"], answer["is_complete"]) == (["two"], False)
    assert answer["datastreams"][0]["bytes_per_second"] is None


def test_a_damaged_definition_and_one_that_is_set_aside_are_shown_with_the_reason(site: Site) -> None:
    site.create()
    site.session.create("/datastreams/broken", b"{")
    found = {one["name"]: one for one in site.client.get("/v1/overview").json()["datastreams"]}
    assert (found["broken"]["status"], found["broken"]["is_set_aside"]) == ("DAMAGED", True)
    assert found["broken"]["problem"]
    assert (found["orders"]["status"], found["orders"]["is_set_aside"]) == ("READY", False)


def test_the_open_incident_and_the_budget_that_is_left_are_of_the_newest(site: Site) -> None:
    site.create(objective={"milliseconds": 2_500, "percentile": 99.0})
    costs = (BudgetCost("p99", 0.9, 0.4), BudgetCost("p50", 0.9, None))
    site.incidents += [
        IncidentRecord(
            "orders-3", "orders", "source", 3_000, cause="hot partition", costs=costs, judged_ms=3_500
        ),
        IncidentRecord("orders-1", "orders", "source", 1_000, 2_000, costs=(BudgetCost("p99", 1.0, 0.9),)),
    ]
    found = glance(site, datastream="orders")
    assert (found["budget_left"], found["budget_as_of_ms"]) == (0.4, 3_500)
    assert found["incident"] == {
        "id": "orders-3",
        "opened_ms": 3_000,
        "cause": "hot partition",
        "is_late": True,
        "closing_ms": None,
    }
    assert (found["objective_ms"], found["percentile"]) == (2_500, 99.0)


def test_incidents_that_cannot_be_read_cost_nothing_else(site: Site) -> None:
    def away() -> None:
        raise Unreachable("the metrics cluster does not answer")

    site.create()
    site.app.state.services = replace(site.app.state.services, incidents=away)
    answer = site.client.get("/v1/overview").json()
    assert (answer["knows_incidents"], len(answer["datastreams"])) == (False, 1)


def test_nobody_is_told_of_a_datastream_that_is_not_there(site: Site) -> None:
    assert site.client.get("/v1/overview").json()["datastreams"] == []
    assert site.client.get("/v1/overview", params={"datastream": "no-such"}).status_code == 404


@pytest.mark.parametrize(
    "said", [7, "x", [{}], [{"group": "g"}], [{"group": "g", "topic": "t", "lanes": "x"}]]
)
def test_what_another_instance_says_wrongly_is_refused(said: Any) -> None:
    with pytest.raises((ValueError, InvalidRequest)):
        sums_read(said)


def test_sums_are_read_back_and_a_later_version_may_say_more(site: Site) -> None:
    site.create()
    say(site, "t-0")
    shown_sums = sums_document(own_sums(site.services))
    assert sums_read(shown_sums) == own_sums(site.services)
    assert sums_read([{**shown_sums[0], "unheard_of": 1}]) == own_sums(site.services)
    assert shown_sums[0]["group"] == GroupName("orders")
    assert TopicSums(GroupName("g"), "t").oldest_ms is None


def test_an_overview_of_500_datastreams_stays_small(site: Site) -> None:
    for number in range(500):
        site.definitions.create(
            a_datastream(f"datastream-{number:03}", f"topic-{number}", metadata={"owner": "x"})
        )
    answer = site.client.get("/v1/overview")
    assert len(answer.json()["datastreams"]) == 500
    assert len(gzip.compress(answer.content, 1)) < 60_000


def test_a_caller_is_told_who_it_is_and_what_it_may_not_change(guarded: Guarded) -> None:
    def refusal(who: str, owner: str = "") -> str:
        answer = guarded.as_(who).get("/v1/caller", params={"owner": owner} if owner else {}).json()
        assert answer["role"] == who
        return str(answer["refusal"])

    assert "role owner" in refusal("viewer")
    assert refusal("owner", "mine") == refusal("operator", "theirs") == refusal("admin", "theirs") == ""
    assert "theirs" in refusal("owner", "theirs")
    assert guarded.as_("owner").get("/v1/caller").json()["owners"] == ["mine"]


def test_a_plan_can_be_asked_for_by_datastream_and_without_its_tasks(site: Site) -> None:
    site.create()
    site.source.topics["u"] = site.source.topics["t"]
    site.create("users", source={"cluster": "source", "topics": "u"})
    found = site.client.get("/v1/plan", params={"datastream": "users"}).json()
    assert {one["datastream"] for one in found["tasks"]} == {"users"}
    assert [one["datastream"] for one in found["groups"]] == ["users"]
    short = site.client.get("/v1/plan", params={"tasks": "false"}).json()
    assert (short["tasks"], len(short["groups"])) == ([], 2)
