"""Test /v1/plan, /v1/rebalance and /v1/events."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from api.resources.plan_answers import RebalanceAnswer
from mirror.coordination.plan_decision import Decision
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.fakes.site import Site


def make_heavy(site: Site) -> None:
    """Make each of the two partitions carry almost the capacity of a task."""
    rates = {TopicPartition("t", number): (80.0, 1.0) for number in range(2)}
    MeasuredLoads(site.session).publish(InstanceName("other"), InstanceMeasurements({SOURCE: rates}), 10**15)


def test_before_the_first_plan_there_is_an_empty_one(client: Client) -> None:
    assert client.get("/v1/plan").json() == {
        "epoch": 0,
        "created_ms": 0,
        "reason": "no plan yet",
        "tasks": [],
        "groups": [],
    }


def test_the_plan_says_what_was_found_of_each_group_also_on_another_instance(
    client: Client, site: Site
) -> None:
    site.create()
    make_heavy(site)
    client.post("/v1/rebalance", json={"datastream": "orders"})
    site.tick()
    (group,) = client.get("/v1/plan").json()["groups"]
    assert (group["datastream"], group["required_tasks"], group["unknown"]) == ("orders", 2, 0)
    assert group["reasons"]
    capacity = group["capacity"]
    assert (capacity["origin"], capacity["bytes_per_second"], capacity["observations"]) == ("setting", 100, 0)
    other = Site(site.server, "two")
    assert client_groups(other) == [group]


def client_groups(site: Site) -> Any:
    return site.client.get("/v1/plan").json()["groups"]


def test_the_plan_in_force(client: Client, site: Site) -> None:
    site.create()
    plan = client.get("/v1/plan").json()
    assert plan["epoch"] == 1
    assert plan["tasks"] == [
        {"task": "orders-0", "datastream": "orders", "instance": "one", "partitions": ["t-0", "t-1"]}
    ]


def test_a_dry_run_tells_the_moves_and_does_nothing(client: Client, site: Site) -> None:
    site.create()
    make_heavy(site)
    before = site.server.dump()
    answer = client.post("/v1/rebalance", json={"datastream": "orders", "full": True, "dry_run": True})
    assert answer.status_code == 200
    found = answer.json()
    assert found["request"] == ""
    assert found["required_tasks"] == 2
    assert found["reasons"] == ["2 tasks for 2 partitions"]
    assert [(one["partition"], one["from_task"], one["to_task"]) for one in found["moves"]] == [
        ("t-1", "orders-0", "orders-1")
    ]
    assert site.server.dump() == before


def test_a_rebalance_is_queued_and_carried_out_by_the_leader(client: Client, site: Site) -> None:
    site.create()
    make_heavy(site)
    body = {"datastream": "orders", "full": True, "requested_by": "me", "reason": "too slow"}
    answer = client.post("/v1/rebalance", json=body)
    assert answer.status_code == 202
    assert answer.json()["request"].startswith("r-")
    assert answer.json()["moves"] == []
    site.tick()
    plan = client.get("/v1/plan").json()
    assert plan["epoch"] == 2
    assert "me: too slow" in plan["reason"]
    assert [task["partitions"] for task in plan["tasks"]] == [["t-0"], ["t-1"]]


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_has_no_tasks_cannot_be_rebalanced(client: Client, site: Site, dry_run: bool) -> None:
    site.create()
    client.post("/v1/datastreams/orders/pause", json={})
    for name, status in (("orders", 409), ("nobody", 404)):
        answer = client.post("/v1/rebalance", json={"datastream": name, "dry_run": dry_run})
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("body", [{}, {"datastream": 5}, {"datastream": "orders", "force": True}], ids=str)
def test_a_rebalance_that_cannot_be_read_is_refused(client: Client, body: dict[str, Any]) -> None:
    assert client.post("/v1/rebalance", json=body).status_code == 400


def test_a_reason_that_does_not_fit_is_refused(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/v1/rebalance", json={"datastream": "orders", "reason": "x" * 2**19})
    assert answer.status_code == 400


def test_events_tell_what_changed_newest_first(client: Client, site: Site) -> None:
    site.create()
    site.create("users", destination={"cluster": "destination", "name": "u.*"})
    events = client.get("/v1/events").json()
    assert [(one["plan_epoch"], one["kind"]) for one in events] == [
        (2, "plan"), (2, "datastream"), (2, "move"), (2, "move"), (0, "command"),
        (1, "plan"), (1, "datastream"), (1, "move"), (1, "move"), (0, "command"),
    ]  # fmt: skip
    assert {one["datastream"] for one in events if one["kind"] == "move"} == {"orders", "users"}
    assert len(client.get("/v1/events", params={"limit": 2}).json()) == 2


@pytest.mark.parametrize("limit", [0, -1, 10_001, "many"])
def test_a_limit_has_limits(client: Client, limit: object) -> None:
    answer = client.get("/v1/events", params={"limit": str(limit)})
    assert answer.status_code == 400
    assert "limit" in answer.json()["detail"]


def test_a_dry_run_says_why_a_group_is_not_planned() -> None:
    decision = Decision(None, "no change", problems={GroupName("orders"): KeyError("bug")})
    (reason,) = RebalanceAnswer.from_decision(decision).reasons
    assert reason.startswith("orders ")
    assert "KeyError: 'bug'" in reason
