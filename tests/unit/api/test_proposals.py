"""Test plans that are computed, shown, and applied unchanged."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from httpx import Client

from mirror.coordination.placement import SimplePlanner
from mirror.coordination.proposals.proposal import answer_shown, to_stored
from mirror.coordination.proposals.proposal_store import KEPT_OF_GROUP
from mirror.coordination.stores import node_codec
from mirror.coordination.stores.requests import ApplyRequest
from mirror.errors import IllegalTransition, Unreachable
from mirror.model.identifiers import TaskName
from mirror.model.plan import GroupPlan, PlanningRequest
from tests.fakes.node_store import failing_write
from tests.fakes.site import Site
from tests.unit.api.test_plans import make_heavy

PLAN = "/v1/datastreams/orders/plan"


def made(client: Client, site: Site) -> Any:
    """Create a plan that splits one task into two."""
    site.create()
    make_heavy(site)
    answer = client.post(PLAN, json={"full": True})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/plans/{answer.json()['id']}"
    return answer.json()


def in_force(client: Client) -> list[list[str]]:
    return [task["partitions"] for task in client.get("/v1/plan").json()["tasks"]]


def test_a_plan_is_shown_by_any_instance_and_changes_nothing(client: Client, site: Site) -> None:
    plan = made(client, site)
    assert (plan["epoch"], plan["tasks"], plan["required_tasks"]) == (1, 2, 2)
    assert plan["reasons"] == ["2 tasks for 2 partitions"]
    assert [(one["partition"], one["to_task"]) for one in plan["moves"]] == [("t-1", "orders-1")]
    assert (plan["asked_by"], plan["changed"]) == (None, [])
    assert Site(site.server, "two").client.get(f"/v1/plans/{plan['id']}").json() == plan
    site.tick()
    assert in_force(client) == [["t-0", "t-1"]]


def test_exactly_that_plan_is_applied_once_whoever_asks(client: Client, site: Site) -> None:
    path = f"/v1/plans/{made(client, site)['id']}"
    other = Site(site.server, "two").client
    assert other.post(f"{path}/apply", json={"requested_by": "me"}).status_code == 202
    again = client.post(f"{path}/apply", json={})
    assert (again.status_code, again.json()["kind"]) == (409, "IllegalTransition")
    assert again.json()["detail"].split()[-1] == "me"
    site.tick()
    plan = client.get("/v1/plan").json()
    assert (plan["epoch"], in_force(client)) == (2, [["t-0"], ["t-1"]])
    assert path.rpartition("/")[2] in plan["reason"]
    assert client.get(path).json()["asked_by"] == "me"
    assert "epoch 2" in client.get(path).json()["changed"][0]


class Explaining(SimplePlanner):
    """Planner that gives a reason for every move."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the plan of SimplePlanner with reasons."""
        found = super().plan(request)
        return replace(found, move_reasons=dict.fromkeys(request.partitions, "heavy"))


def test_the_events_have_the_reasons_that_were_shown() -> None:
    site = Site(planner=Explaining())
    plan = made(site.client, site)
    assert {one["reason"] for one in plan["moves"]} == {"heavy"}
    site.client.post(f"/v1/plans/{plan['id']}/apply", json={})
    site.tick()
    told = {one["kind"]: one for one in site.client.get("/v1/events").json() if one["plan_epoch"] == 2}
    assert (told["move"]["sentence"], told["move"]["kafka_partition"]) == ("heavy", 1)
    assert told["datastream"]["sentence"] == "; ".join(plan["reasons"])


def test_what_was_shown_and_cannot_be_read_gives_no_reasons(client: Client, site: Site) -> None:
    identity = made(client, site)["id"]
    stored = site.leader.stores.proposals.get(identity).proposal
    rows = [1, {}, {"partition": 7, "reason": "x"}, {"partition": "t-1", "reason": 7}, {"partition": "-"}]
    for shown in ({}, {"moves": 7, "reasons": 7}, {"moves": rows, "reasons": [None]}):
        answer = answer_shown(replace(stored, shown=shown))
        assert (answer.move_reasons, answer.reasons) == ({}, ())


def test_two_at_once_queue_it_once(client: Client, site: Site) -> None:
    path = f"/v1/plans/{made(client, site)['id']}"
    other = Site(site.server, "two").client

    def in_between(operation: Any) -> None:
        if operation.name == "change_together":
            site.session.script = lambda _: None
            assert other.post(f"{path}/apply", json={}).status_code == 202

    site.session.script = in_between
    assert client.post(f"{path}/apply", json={}).status_code == 409
    assert len(site.leader.stores.requests.pending()) == 1


def test_a_plan_that_is_not_true_any_more_is_refused_with_what_has_changed(
    client: Client, site: Site
) -> None:
    path = f"/v1/plans/{made(client, site)['id']}"
    site.create("users", destination={"cluster": "destination", "name": "u.*"})
    answer = client.post(f"{path}/apply", json={})
    assert answer.status_code == 409
    assert "epoch 2, expected 1" in answer.json()["detail"]


def test_what_changes_until_the_leader_looks_is_told_by_an_event(client: Client, site: Site) -> None:
    path = f"/v1/plans/{made(client, site)['id']}"
    assert client.post(f"{path}/apply", json={"requested_by": "me"}).status_code == 202
    version = client.get("/v1/datastreams/orders").headers["etag"]
    change = {"limits": {"max_tasks": 7}}
    assert client.patch("/v1/datastreams/orders", json=change, headers={"If-Match": version}).is_success
    site.tick()
    assert in_force(client) == [["t-0", "t-1"]]
    (event,) = [one for one in client.get("/v1/events").json() if one["kind"] == "request"]
    (operation,) = client.get("/v1/operations").json()
    assert (operation["kind"], operation["state"]) == ("apply", "failed")
    assert "definitions of orders" in event["sentence"]


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("number", range(8))
def test_wherever_the_leader_breaks_off_it_is_applied_once(
    client: Client, site: Site, number: int, after_effect: bool
) -> None:
    client.post(f"/v1/plans/{made(client, site)['id']}/apply", json={})
    site.session.script = failing_write(number, after_effect=after_effect)
    with contextlib.suppress(Unreachable):
        site.leader.leader.tick()
    site.session.script = lambda _: None
    site.leader.leader._forget()
    site.tick()
    assert in_force(client) == [["t-0"], ["t-1"]]
    assert client.get("/v1/plan").json()["epoch"] == 2
    assert not [one for one in client.get("/v1/events").json() if one["kind"] == "request"]
    assert site.leader.stores.requests.pending() == ()


def test_a_plan_lasts_an_hour_and_their_number_is_bounded(client: Client, site: Site) -> None:
    first = made(client, site)["id"]
    for _ in range(KEPT_OF_GROUP):
        last = client.post(PLAN, json={}).json()["id"]
    assert client.get(f"/v1/plans/{first}").status_code == 404
    assert client.get(f"/v1/plans/{last}").status_code == 200
    site.clock.advance(3_601)
    for answer in (client.get(f"/v1/plans/{last}"), client.post(f"/v1/plans/{last}/apply", json={})):
        assert (answer.status_code, "has expired" in answer.json()["detail"]) == (404, True)


def test_one_group_drops_no_plan_of_another(client: Client, site: Site) -> None:
    site.create("users", destination={"cluster": "destination", "name": "u.*"})
    theirs = client.post("/v1/datastreams/users/plan", json={}).json()["id"]
    first = made(client, site)["id"]
    for _ in range(KEPT_OF_GROUP):
        client.post(PLAN, json={})
    assert client.get(f"/v1/plans/{first}").status_code == 404
    assert client.get(f"/v1/plans/{theirs}").status_code == 200
    other = Site(site.server, "two")
    other.client.post(PLAN, json={})
    assert client.get(f"/v1/plans/{theirs}").status_code == 200, "another instance must not drop it"


@pytest.mark.parametrize("identity", ["x", "p-1", "p-0000000009", "..", "p-0000000000%2Fx"])
def test_what_is_no_plan_is_not_found(client: Client, identity: str) -> None:
    assert client.get(f"/v1/plans/{identity}").status_code == 404


def test_a_plan_that_somebody_has_damaged_is_said_to_be(client: Client, site: Site) -> None:
    identity = made(client, site)["id"]
    stored = site.leader.stores.proposals.get(identity)
    damaged = to_stored(replace(stored.proposal, shown={"moves": 5}))
    path = f"/proposals/{identity}"
    site.session.write(path, node_codec.encode_chunks(damaged)[0], 0)
    assert client.get(f"/v1/plans/{identity}").json()["kind"] == "DamagedState"
    site.session.write(path, b"x", 1)
    assert client.post(f"/v1/plans/{identity}/apply", json={}).json()["kind"] == "DamagedState"


def test_a_plan_that_cannot_be_published_is_answered_and_holds_up_nobody(client: Client, site: Site) -> None:
    identity = made(client, site)["id"]
    stored = site.leader.stores.proposals.get(identity)
    (placed, *_) = stored.proposal.placed
    twice = replace(stored.proposal, placed=(placed, replace(placed, task=TaskName("orders-7"))))
    site.session.write(f"/proposals/{identity}", node_codec.encode_chunks(to_stored(twice))[0], 0)
    assert client.post(f"/v1/plans/{identity}/apply", json={}).status_code == 202
    site.tick()
    assert in_force(client) == [["t-0", "t-1"]]
    (event,) = [one for one in client.get("/v1/events").json() if one["kind"] == "request"]
    (operation,) = client.get("/v1/operations").json()
    assert (operation["kind"], operation["state"]) == ("apply", "failed")
    assert "two tasks" in event["sentence"]
    assert site.leader.stores.requests.pending() == ()


def test_two_who_apply_a_plan_at_once_are_told_apart(client: Client, site: Site) -> None:
    """Both have read the plan before either of them has applied it."""
    identity = made(client, site)["id"]
    proposals = site.leader.stores.proposals
    stored = proposals.get(identity)
    proposals.ask_for(stored, ApplyRequest(stored.proposal.group, identity, "alice", 0))
    with pytest.raises(IllegalTransition, match="alice"):
        proposals.ask_for(stored, ApplyRequest(stored.proposal.group, identity, "bob", 0))
    assert [one.requested_by for one in site.leader.stores.requests.pending()] == ["alice"]


def test_what_has_no_tasks_has_no_plan(client: Client, site: Site) -> None:
    site.create()
    client.post("/v1/datastreams/orders/pause", json={})
    assert client.post(PLAN, json={}).status_code == 409
    assert client.post("/v1/datastreams/nobody/plan", json={}).status_code == 404
