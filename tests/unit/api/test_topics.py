"""Unused topics and retirements over REST: rights, failures, and the state of a call."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from mirror.coordination.topic_retirement import Retirement, RetirementPhase, WriteDenial
from mirror.model.identifiers import ClusterRef, DatastreamName
from tests.fakes.site import Site, no_cluster
from tests.unit.api.guarded import Guarded

BODY = {"cluster": "source", "topic": "t"}


def a_retirement(**more: Any) -> Retirement:
    values: dict[str, Any] = {
        "cluster": ClusterRef("source"),
        "topic": "t",
        "topic_id": "00" * 16,
        "ends": "ends",
        "partitions": 2,
        "phase": RetirementPhase.SEALED,
        "denial": WriteDenial.NO_AUTHORIZER,
        "selected": (DatastreamName("orders"),),
        "paused": (DatastreamName("orders"),),
        "owners": ("tests",),
        "days": 60,
        "wait_ms": 0,
        "started_ms": 1,
        "due_ms": 4_000_000_000_000,
        **more,
    }
    return Retirement(**values)


def test_a_cluster_that_does_not_respond_is_an_error(site: Site, client: Client) -> None:
    site.ask_cluster = no_cluster
    assert client.get("/v1/topics", params={"cluster": "source"}).status_code == 503
    assert client.post("/v1/retirements", json=BODY).status_code == 503
    assert client.get("/v1/retirements").json() == []


def test_a_sealed_topic_waits(site: Site, client: Client) -> None:
    site.services.retirements.store.begin(a_retirement())
    found = client.post("/v1/retirements", json=BODY | {"execute": True}).json()
    assert (found["is_over"], found["is_dry_run"], found["evidence"]) == (False, False, None)
    assert found["retirement"]["phase"] == "sealed"
    assert client.get("/v1/retirements").json() == [found["retirement"]]
    restored = client.post("/v1/retirements/restore", json=BODY)
    assert (restored.status_code, restored.json()["is_over"]) == (200, True)
    assert client.get("/v1/retirements").json() == []
    assert client.post("/v1/retirements/restore", json=BODY).status_code == 404


def test_a_damaged_definition_may_select_any_topic(site: Site, client: Client) -> None:
    site.create()
    path = "/datastreams/orders"
    site.session.write(path, b"damaged", site.session.read(path).version)
    answer = client.get("/v1/topics", params={"cluster": "source"})
    assert answer.status_code in (409, 503)


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "thé"},
        {"topic": "t" * 250},
        {"topic": ""},
        {"cluster": ""},
        {"cluster": "a\nb"},
        {"days": -1},
        {"days": 10**12},
        {"wait_seconds": -1},
        {"execute": 1},
        {"reason": "x" * 10_000},
        {"no_such_field": 1},
    ],
)
def test_impossible_requests_are_refused(client: Client, change: dict[str, Any]) -> None:
    assert client.post("/v1/retirements", json=BODY | change).status_code == 400


def test_only_operators_may_look_and_act(guarded: Guarded) -> None:
    for role, is_allowed in (("viewer", False), ("owner", False), ("operator", True)):
        caller = guarded.as_(role)
        looked = caller.get("/v1/topics", params={"cluster": "source"})
        acted = caller.post("/v1/retirements", json=BODY | {"execute": True})
        restored = caller.post("/v1/retirements/restore", json=BODY)
        refused = [one.status_code == 403 for one in (looked, acted, restored)]
        assert refused == [not is_allowed] * 3, role
