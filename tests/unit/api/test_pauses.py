"""Test timed pauses over REST."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from mirror.model.datastreams.pauses import moment_text
from tests.fakes.site import Site

PAUSE = "/v1/datastreams/orders/pause"
PARTITIONS = "/v1/datastreams/orders/pause-partitions"


def health(client: Client) -> str:
    return str(client.get("/v1/health").json()["parts"]["paused by people"]["sentence"])


@pytest.mark.parametrize(
    "end",
    [{"for_seconds": 90}, {"until": 1_700_000_090_000}, {"until": "2023-11-15T00:14:50+02:00"}],
    ids=str,
)
def test_a_datastream_is_paused_for_a_time(client: Client, site: Site, end: dict[str, Any]) -> None:
    site.create()
    now_ms = site.clock.now_ms()
    answer = client.post(PAUSE, json={"reason": "tests", "requested_by": "me", **end})
    assert answer.status_code == 200
    until_ms = now_ms + 90_000 if "for_seconds" in end else 1_700_000_090_000
    halt = {"reason": "tests", "since_ms": now_ms, "requested_by": "me", "until_ms": until_ms}
    assert client.get("/v1/datastreams/orders").json()["halt"] == halt
    site.tick()
    assert all(fact in health(client) for fact in ("orders", " me ", moment_text(until_ms), "tests"))
    site.clock.advance(91)
    site.tick()
    found = client.get("/v1/datastreams/orders").json()
    assert (found["status"], found["halt"]) == ("READY", None)
    (event,) = [one for one in client.get("/v1/events").json() if one["sentence"].startswith("resumed")]
    assert event["kind"] == "command"
    assert event["datastream"] == "orders"


def test_partitions_are_paused_for_a_time(client: Client, site: Site) -> None:
    site.create()
    answer = client.post(PARTITIONS, json={"partitions": {"t": "1"}, "for_seconds": 60.5, "reason": "bad"})
    assert answer.json()["pauses"]["t"]["until_ms"] == site.clock.now_ms() + 60_500
    site.tick()
    assert "orders (t:1 until 2023-" in health(client)
    site.clock.advance(61)
    site.tick()
    assert client.get("/v1/datastreams/orders").json()["pauses"] == {}


def test_the_end_of_a_pause_can_change(client: Client, site: Site) -> None:
    site.create()
    client.post(PAUSE, json={"reason": "tests", "requested_by": "me"})
    assert client.post(PAUSE, json={"reason": "again"}).is_client_error
    site.clock.advance(5)
    halt = client.post(PAUSE, json={"for_seconds": 60}).json()["halt"]
    until_ms = site.clock.now_ms() + 60_000
    assert (halt["reason"], halt["requested_by"], halt["until_ms"]) == ("tests", "me", until_ms)
    assert halt["since_ms"] == until_ms - 65_000


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"until": 5}, "/until"),
        ({"until": "2001-01-01T00:00:00Z"}, "/until"),
        ({"until": 10**16}, "/until"),
        ({"for_seconds": 10**15}, "/for_seconds"),
        ({"for_seconds": 5, "until": 1_900_000_000_000}, "/for_seconds"),
    ],
    ids=str,
)
def test_an_end_that_cannot_be_is_refused_by_its_field(
    client: Client, site: Site, body: dict[str, Any], pointer: str
) -> None:
    site.create()
    for path, more in ((PAUSE, {}), (PARTITIONS, {"partitions": {"t": "1"}})):
        answer = client.post(path, json={**body, **more})
        assert answer.status_code == 422
        assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
    assert site.stored("orders").halt is None


@pytest.mark.parametrize(
    "body",
    [{"until": "soon"}, {"until": "2030-01-01T00:00:00"}, {"for_seconds": 0}, {"for_seconds": "x"}],
    ids=str,
)
def test_an_end_that_cannot_be_read_is_refused(client: Client, site: Site, body: dict[str, Any]) -> None:
    site.create()
    assert client.post(PAUSE, json=body).status_code == 400


@pytest.mark.parametrize("action", ["resume", "stop", "resume-partitions"])
def test_only_a_pause_has_an_end(client: Client, site: Site, action: str) -> None:
    site.create()
    more = {"partitions": {"t": "1"}} if "partitions" in action else {}
    answer = client.post(f"/v1/datastreams/orders/{action}", json={"for_seconds": 5, **more})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/for_seconds"
    assert "pause" in error["detail"]
