"""Test long-running work as a resource: location, progress and outcome."""

from __future__ import annotations

import re
from typing import Any

import pytest
from httpx import Client, Response

from mirror.coordination.outcome_store import LASTS_MS
from mirror.coordination.stores.znodes import OPERATIONS
from tests.fakes.node_store import Fault, Operation
from tests.fakes.site import Site, a_body
from tests.unit.api.test_plans import make_heavy

REBALANCE = {"datastream": "orders", "full": True, "requested_by": "me", "reason": "too slow"}
MOVE = {"partitions": ["t-0"], "instance": "one", "requested_by": "me"}
COPY = {"cluster": "destination", "name": "u.*"}


def asked(answer: Response) -> Any:
    """Return the location of the operation that a response started."""
    assert answer.is_success, answer.text
    assert answer.headers["location"].startswith("/v1/operations/")
    return answer.headers["location"]


def state(client: Client, location: str) -> Any:
    answer = client.get(location)
    assert answer.status_code == 200, answer.text
    assert answer.json()["id"] == location.rpartition("/")[2]
    return answer.json()


def test_a_rebalance_is_queued_and_then_done_by_a_plan_as_any_instance_says(
    client: Client, site: Site
) -> None:
    site.create()
    make_heavy(site)
    answer = client.post("/v1/rebalance", json=REBALANCE)
    location, other = asked(answer), Site(site.server, "two").client
    queued = state(other, location)
    assert answer.json()["operation"] == queued == state(client, location)
    assert answer.json()["request"] == queued["id"]
    assert (queued["kind"], queued["state"], queued["datastream"]) == ("rebalance", "queued", "orders")
    assert (queued["requested_by"], queued["finished_ms"], queued["plan_epoch"]) == ("me", None, None)
    site.tick()
    done = state(client, location)
    assert done == state(other, location)
    assert (done["state"], done["plan_epoch"]) == ("done", 2)
    assert done["requested_by"] == "me"
    assert "too slow" in done["sentence"]
    assert done["created_ms"] == queued["created_ms"] < done["finished_ms"]


def test_what_changes_nothing_is_done_and_says_so(client: Client, site: Site) -> None:
    site.create()
    location = asked(client.post("/v1/rebalance", json=REBALANCE))
    site.tick()
    done = state(client, location)
    assert (done["state"], done["plan_epoch"]) == ("done", 1)
    assert done["sentence"].startswith("no further change")
    assert "epoch 1 (" in done["sentence"]


def test_a_dry_run_is_no_operation(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/v1/rebalance", json=REBALANCE | {"dry_run": True})
    assert (answer.json()["operation"], "location" in answer.headers) == (None, False)
    answer = client.delete("/v1/datastreams/orders", params={"dry_run": True})
    assert (answer.status_code, "location" in answer.headers) == (200, False)
    assert client.get("/v1/operations").json() == []


def test_a_move_is_done_or_failed_with_the_reason(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/v1/datastreams/orders/move", json=MOVE)
    location = asked(answer)
    assert answer.json() == {"request": state(client, location)["id"], "operation": state(client, location)}
    site.tick()
    assert (state(client, location)["kind"], state(client, location)["state"]) == ("move", "done")
    lost = asked(client.post("/v1/datastreams/orders/move", json=MOVE | {"partitions": ["t-9"]}))
    site.tick()
    failed = state(client, lost)
    assert (failed["state"], failed["plan_epoch"]) == ("failed", None)
    assert "orders" in failed["sentence"]
    assert "partitions" in failed["sentence"]


@pytest.mark.parametrize("breaks_off", [False, True])
def test_a_plan_is_applied_or_not_true_any_more(client: Client, site: Site, breaks_off: bool) -> None:
    site.create()
    make_heavy(site)
    plans = [client.post("/v1/datastreams/orders/plan", json={"full": True}).json() for _ in range(2)]
    answers = [client.post(f"/v1/plans/{one['id']}/apply", json={"requested_by": "me"}) for one in plans]
    locations = [asked(one) for one in answers]
    assert [one.json()["operation"] for one in answers] == [state(client, one) for one in locations]
    site.session.script = before_an_outcome if breaks_off else site.session.script
    site.tick()
    site.session.script = lambda _: None
    site.tick(4)
    applied, again = (state(client, one) for one in locations)
    assert (applied["kind"], applied["state"], applied["plan_epoch"]) == ("apply", "done", 2)
    said = (
        f"plan {plans[0]['id']} is in effect"
        if breaks_off
        else f"requested by me: apply plan {plans[0]['id']}"
    )
    assert applied["sentence"] == said
    assert (again["state"], again["plan_epoch"]) == ("done", 2), "both plans are identical"


def before_an_outcome(operation: Operation) -> Fault | None:
    is_outcome = operation.name == "change_together" and operation.path.startswith("/requests/")
    return Fault(after_effect=False) if is_outcome else None


def test_a_plan_that_is_not_true_any_more_has_failed(client: Client, site: Site) -> None:
    site.create()
    make_heavy(site)
    plan = client.post("/v1/datastreams/orders/plan", json={"full": True}).json()
    location = asked(client.post(f"/v1/plans/{plan['id']}/apply", json={}))
    tag = client.get("/v1/datastreams/orders").headers["etag"]
    change = {"limits": {"max_tasks": 7}}
    assert client.patch("/v1/datastreams/orders", json=change, headers={"If-Match": tag}).is_success
    site.tick()
    failed = state(client, location)
    assert (failed["state"], failed["plan_epoch"]) == ("failed", None)
    (event,) = [one for one in client.get("/v1/events").json() if one["kind"] == "request"]
    assert event["sentence"].endswith(failed["sentence"])
    assert "definitions of orders" in failed["sentence"]


def test_a_deletion_runs_until_the_definition_is_gone(client: Client, site: Site) -> None:
    site.create()
    now_ms, why = site.clock.now_ms(), {"reason": "not needed", "requested_by": "me"}
    location = asked(client.delete("/v1/datastreams/orders", params=why))
    running = state(client, location)
    assert (running["kind"], running["state"], running["datastream"]) == ("delete", "running", "orders")
    assert (running["created_ms"], running["requested_by"], running["finished_ms"]) == (now_ms, "me", None)
    site.clock.advance(1)
    assert asked(client.delete("/v1/datastreams/orders")) == location, "operation still running"
    assert state(client, location) == running, "the first request counts"
    shown = client.get("/v1/datastreams/orders").json()["halt"]
    assert shown == {**why, "since_ms": now_ms, "until_ms": None}
    told = client.get("/v1/events").json()[1]
    assert (told["kind"], told["datastream"]) == ("command", "orders")
    assert told["sentence"].startswith("me ")
    assert told["sentence"].endswith("not needed")
    site.tick()
    assert client.get("/v1/datastreams/orders").status_code == 404
    done = state(client, location)
    assert (done["state"], done["plan_epoch"]) == ("done", None)
    assert (done["created_ms"], done["requested_by"]) == (now_ms, "me")
    site.clock.advance(1)
    site.create()
    other = asked(client.delete("/v1/datastreams/orders"))
    assert (state(client, other)["state"], state(client, location)) == ("running", done)


@pytest.mark.parametrize(
    ("path", "begins"), [("/v1/datastreams/orders", ""), ("/datastream/orders", "Brooklin's REST, ")]
)
def test_who_deletes_without_a_name_is_known_by_address_and_call(
    client: Client, site: Site, path: str, begins: str
) -> None:
    site.create()
    assert client.post(
        "/v1/datastreams/orders/pause", json={"reason": "pause", "requested_by": "me"}
    ).is_success
    assert client.delete(path, headers={"X-Request-ID": "call-7"}).is_success
    halt = client.get("/v1/datastreams/orders").json()["halt"]
    who = halt["requested_by"]
    assert re.fullmatch(rf"{begins}.*\b127\.0\.0\.1\b.*\bcall-7\b\W*", who)
    assert (halt["reason"], halt["since_ms"]) == ("", site.clock.now_ms())
    assert client.get("/v1/events").json()[0]["sentence"] == f"{who} deleted the datastream"


def test_a_datastream_that_outlives_its_time_says_so(client: Client, site: Site) -> None:
    site.create(metadata={"owner": "tests", "system.ttl.ms": "20000"})
    site.clock.advance(20)
    site.tick()
    (operation,) = client.get("/v1/operations").json()
    assert (operation["kind"], operation["requested_by"]) == ("delete", "system.ttl.ms")
    told = [one["sentence"] for one in client.get("/v1/events").json() if one["kind"] == "command"]
    assert any("expired" in one for one in told)


def test_a_damaged_definition_is_deleted_at_once(client: Client, site: Site) -> None:
    site.create()
    site.session.write("/datastreams/orders", b"{", site.session.read("/datastreams/orders").version)
    answer = client.delete("/v1/datastreams/orders")
    assert (answer.status_code, "location" in answer.headers) == (202, False)
    assert client.get("/v1/datastreams/orders").status_code == 404
    assert "deleted" in client.get("/v1/events").json()[0]["sentence"]


def test_a_stop_runs_until_nothing_is_left_and_is_remembered_when_it_is_resumed(
    client: Client, site: Site
) -> None:
    site.create()
    why = {"reason": "maintenance", "requested_by": "me"}
    location = asked(client.post("/v1/datastreams/orders/stop", json=why))
    running = state(client, location)
    assert (running["kind"], running["state"], running["requested_by"]) == ("stop", "running", "me")
    assert asked(client.post("/v1/datastreams/orders/stop", json={})) == location
    site.tick()
    done = state(client, location)
    assert (done["state"], done["created_ms"]) == ("done", running["created_ms"])
    assert done["finished_ms"] > done["created_ms"]
    assert "location" not in client.post("/v1/datastreams/orders/resume", json={}).headers
    assert state(client, location) == done
    site.clock.advance(1)
    assert asked(client.post("/v1/datastreams/orders/stop", json={})) != location


def test_a_stop_that_a_deletion_has_overtaken_has_failed(client: Client, site: Site) -> None:
    site.create()
    stop = asked(client.post("/v1/datastreams/orders/stop", json={}))
    deletion = asked(client.delete("/v1/datastreams/orders"))
    assert (state(client, stop)["state"], state(client, deletion)["state"]) == ("failed", "running")
    site.tick()
    assert "DELETING" in state(client, stop)["sentence"]
    assert state(client, deletion)["state"] == "done"


def test_a_stop_is_known_for_as_long_as_it_lasts_and_other_outcomes_for_a_day(
    client: Client, site: Site
) -> None:
    site.create()
    rebalance = asked(client.post("/v1/rebalance", json=REBALANCE))
    site.tick()
    stop = asked(client.post("/v1/datastreams/orders/stop", json={}))
    site.tick()
    site.clock.advance(LASTS_MS / 1_000)
    assert client.get(rebalance).status_code == 404
    assert (state(client, stop)["state"], state(client, stop)["finished_ms"]) == ("done", None)
    assert client.get("/v1/operations").json() == []


def test_results_of_a_day_ago_are_removed_when_the_next_result_is_stored(client: Client, site: Site) -> None:
    site.create()
    for _ in range(2):
        asked(client.post("/v1/rebalance", json=REBALANCE))
        site.tick()
        assert len(site.session.children(OPERATIONS)) == 1
        site.clock.advance(LASTS_MS / 1_000)


def test_the_list_has_the_newest_first_of_all_or_of_one_datastream(client: Client, site: Site) -> None:
    site.create("orders", metadata={"owner": "tests", "system.taskPrefix": "shared"})
    site.create("users", destination=COPY)
    names = ("orders", "users", "orders")
    made = []
    for name in names:
        site.clock.advance(1)
        made.append(asked(client.post("/v1/rebalance", json=REBALANCE | {"datastream": name})))
    site.tick()
    site.clock.advance(1)
    made.append(asked(client.post("/v1/datastreams/users/stop", json={})))
    ids = [one.rpartition("/")[2] for one in reversed(made)]
    found = client.get("/v1/operations").json()
    assert [one["id"] for one in found] == ids
    assert [one["state"] for one in found] == ["running", "done", "done", "done"]
    assert [one["id"] for one in client.get("/v1/operations", params={"limit": 2}).json()] == ids[:2]
    for name, theirs in (("orders", [ids[1], ids[3]]), ("users", [ids[0], ids[2]]), ("nobody", [])):
        mine = client.get("/v1/operations", params={"datastream": name}).json()
        assert [one["id"] for one in mine] == theirs
    assert found == [state(client, f"/v1/operations/{one}") for one in ids]


@pytest.mark.parametrize(
    "identity",
    ["x", "r-1", "r-0000000009", f"d-{'0' * 32}", f"s-{'f' * 32}", "..", "r-0000000000%2Fx", "o-0000000000"],
)
def test_what_never_was_is_not_found(client: Client, site: Site, identity: str) -> None:
    site.create()
    asked(client.post("/v1/rebalance", json=REBALANCE))
    site.session.create("/operations/o-", b"{}", sequential=True)
    answer = client.get(f"/v1/operations/{identity}")
    assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound")


def test_what_another_instance_has_just_acknowledged_is_known(client: Client, site: Site) -> None:
    """ZooKeeper has not notified this instance yet."""
    site.create()
    other = Site(site.server, "two")
    assert other.client.get("/v1/operations").json() == []
    other.session.deliver = other.session.pending.clear  # type: ignore[method-assign]
    location = asked(client.delete("/v1/datastreams/orders"))
    assert state(other.client, location)["state"] == "running"
    assert other.client.get(location.replace("d-", "s-")).status_code == 404


def test_while_zookeeper_is_away_what_was_known_is_shown_with_its_age(client: Client, site: Site) -> None:
    site.create()
    location = asked(client.post("/v1/rebalance", json=REBALANCE))
    known = client.get("/v1/operations").json()
    site.session.disconnect()
    site.clock.advance(7)
    answer = client.get(location)
    assert ([answer.json()], answer.headers["age"]) == (known, "7")
    assert client.get("/v1/operations").headers["age"] == "7"
    assert client.get("/v1/operations/r-0000000077").status_code == 503


def test_without_a_memory_an_outage_is_said(client: Client, site: Site) -> None:
    assert client.post("/v1/datastreams", json=a_body()).is_success
    site.session.disconnect()
    for path in ("/v1/operations", "/v1/operations/r-0000000000"):
        assert client.get(path).status_code == 503
