"""Test /v1/monitor: which monitor holds the lease, and whether it may act."""

from __future__ import annotations

from httpx import Client

from tests.fakes.site import Site
from tests.unit.api.guarded import Guarded


def hold(client: Client, holder: str) -> str:
    answer = client.put("/v1/monitor/lease", json={"holder": holder})
    assert answer.status_code == 200, answer.text
    lease: str = answer.json()["lease"]
    return lease


def test_a_service_that_no_monitor_has_asked(client: Client) -> None:
    assert client.get("/v1/monitor").json() == {
        "acting": {"is_on": True, "reason": "", "requested_by": "", "changed_ms": None},
        "holder": None,
        "waiting": None,
        "acts": [],
    }


def test_one_monitor_judges_and_its_rebalance_carries_its_lease(client: Client, site: Site) -> None:
    site.create()
    lease = hold(client, "a")
    assert hold(client, "a") == lease
    assert hold(client, "b") == ""
    body = {"datastream": "orders", "requested_by": "monitor", "reason": "late"}
    refused = client.post("/v1/rebalance", json=body | {"lease": "another"})
    assert refused.status_code == 409
    assert refused.json()["kind"] == "IllegalTransition"
    assert "lease" in refused.json()["detail"]
    assert site.leader.stores.requests.pending() == ()
    assert client.post("/v1/rebalance", json=body | {"lease": lease}).status_code == 202
    found = client.get("/v1/monitor").json()
    assert (found["holder"], found["waiting"]) == ("a", "orders")
    assert [one["datastream"] for one in found["acts"]] == ["orders"]
    assert client.post("/v1/rebalance", json=body | {"lease": lease}).status_code == 409
    assert client.post("/v1/rebalance", json=body).status_code == 202, "an operator needs no lease"
    site.tick()
    assert client.get("/v1/monitor").json()["waiting"] is None
    assert client.delete("/v1/monitor/lease", params={"holder": "a"}).json()["holder"] is None
    assert hold(client, "b")


def test_a_person_forbids_acting_and_it_is_known_who(client: Client, site: Site) -> None:
    site.create()
    lease = hold(client, "a")
    body = {"acting": False, "reason": "a migration", "requested_by": "alice"}
    changed = client.patch("/v1/monitor", json=body)
    assert changed.status_code == 200, changed.text
    assert changed.json()["acting"] == {
        "is_on": False,
        "reason": "a migration",
        "requested_by": "alice",
        "changed_ms": site.clock.now_ms(),
    }
    asked = {"datastream": "orders", "lease": lease}
    refused = client.post("/v1/rebalance", json=asked)
    assert (refused.status_code, "a migration" in refused.text) == (409, True)
    assert client.patch("/v1/monitor", json={"acting": True}).status_code == 200
    assert client.post("/v1/rebalance", json=asked).status_code == 202


def test_all_of_them_take_the_right_to_every_datastream(guarded: Guarded) -> None:
    for method, path, body in (
        ("PATCH", "/v1/monitor", {"acting": False}),
        ("PUT", "/v1/monitor/lease", {"holder": "a"}),
        ("DELETE", "/v1/monitor/lease?holder=a", None),
    ):
        assert guarded.as_("owner").request(method, path, json=body).status_code == 403, path
        assert guarded.as_("operator").request(method, path, json=body).is_success, path
