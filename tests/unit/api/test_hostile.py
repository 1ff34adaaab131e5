"""Test hostile values in requests and in ZooKeeper: valid responses, and no effect on other datastreams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Response

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import to_document
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.datastream import Halt, LatencyObjective, PartitionPause
from mirror.model.movement.exemptions import Resumption
from tests.builders import a_datastream
from tests.fakes.site import Site, a_body
from tests.hostile import (
    BROOKLIN_FIELDS,
    NODES,
    REST_FIELDS,
    STORED_FIELDS,
    VALUES,
    every_key,
    every_value,
    with_value,
)

pytestmark = pytest.mark.long

BODY: Mapping[str, Any] = a_body(
    "bad", limits={}, objective={"milliseconds": 5}, destination={"cluster": "destination", "name": "bad.*"}
)
BROOKLIN: Mapping[str, Any] = {
    "name": "bad",
    "connectorName": "kafkaMirroringConnector",
    "source": {"connectionString": "kafka://source-host:9092/t"},
    "destination": {"connectionString": "kafka://destination-host:9192/bad.*"},
    "metadata": {"owner": "tests"},
}
STORED: Mapping[str, Any] = to_document(
    a_datastream(
        "bad",
        "t",
        objective=LatencyObjective(5),
        pauses={"t": PartitionPause(frozenset({0}), "why", 1)},
        halt=Halt("why", 1),
        creation=Creation("key", "wish"),
        resumptions={"t": Resumption(frozenset({0}), 1, 2, 2)},
    )
)
ACTIONS: Sequence[tuple[str, Mapping[str, Any], Sequence[str]]] = (
    ("/v1/datastreams/good/pause-partitions", {"partitions": {"t": "0"}, "reason": "x"}, ("reason",)),
    ("/v1/datastreams/good/pause-partitions", {"partitions": {"t": "0"}}, ("partitions", "t")),
    ("/v1/datastreams/good/resume-partitions", {"partitions": {"t": "0"}}, ("partitions",)),
    ("/v1/datastreams/good/move", {"partitions": ["t-0"], "instance": "one"}, ("requested_by",)),
    ("/v1/datastreams/good/move", {"partitions": ["t-0"], "instance": "one"}, ("instance",)),
    ("/v1/datastreams/good/move", {"instance": "one"}, ("partitions",)),
    ("/v1/rebalance", {"datastream": "good"}, ("datastream",)),
    ("/v1/rebalance", {"datastream": "good"}, ("requested_by",)),
    ("/v1/rebalance", {"datastream": "good"}, ("reason",)),
    ("/v1/rebalance", {"datastream": "good"}, ("full",)),
    ("/v1/rebalance", {"datastream": "good", "dry_run": True}, ("reason",)),
    ("/datastream/good?action=pauseSourcePartitions", {}, ("sourcePartitions",)),
    ("/datastream/good?action=resumeSourcePartitions", {}, ("sourcePartitions", "t")),
    ("/datastream/good?action=movePartitions", {"targetHost": "one"}, ("partitions",)),
    ("/datastream/good?action=movePartitions", {"partitions": "t-0"}, ("targetHost",)),
)


@pytest.fixture
def crowd() -> Site:
    """Return a site with a datastream of another tenant whose lanes are copying."""
    site = Site()
    site.create("good", destination={"cluster": "destination", "name": "good.*"})
    site.tick()
    assert lanes_of(site, "good") == ["t-0", "t-1"]
    return site


def lanes_of(site: Site, group: str) -> list[str]:
    return sorted(str(key.partition) for key in site.follower.workers.lanes if key.group == group)


def post(site: Site, path: str, body: bytes) -> Response:
    return site.client.post(path, content=body, headers={"content-type": "application/json"})


def check(answer: Response, case: str) -> None:
    """Assert that a client can parse the response and that it is not a server error."""
    assert answer.status_code < 500, (case, answer.status_code, answer.text[:300])
    if answer.content:
        answer.content.decode()
        json.loads(answer.content)
    assert len(answer.content) < 100_000, case


def names(site: Site) -> list[str]:
    answer = site.client.get("/v1/datastreams")
    assert answer.status_code == 200
    elements = site.client.get("/datastream")
    assert elements.status_code == 200
    found = [str(one["name"]) for one in answer.json()]
    assert [one["name"] for one in elements.json()["elements"]] == found
    return found


@pytest.mark.deep
@pytest.mark.parametrize(
    ("path", "document", "fields"),
    [("/v1/datastreams", BODY, REST_FIELDS), ("/datastream", BROOKLIN, BROOKLIN_FIELDS)],
    ids=["v1", "brooklin"],
)
def test_whatever_is_created_is_refused_by_the_field_or_runs(
    crowd: Site, path: str, document: Mapping[str, Any], fields: Sequence[Sequence[str]]
) -> None:
    cases = [*every_value(document, fields), *every_key(document, "metadata")]
    for field, group in groupby(cases, lambda one: one[0].partition(":")[0]):
        for case, body in group:
            answer = post(crowd, path, body)
            check(answer, case)
            if answer.is_success:  # rejected bodies are checked together, after all cases of the field
                made = [name for name in names(crowd) if name != "good"]
                crowd.tick(1)
                for path_of_one in [f"/v1/datastreams/{quote(name, safe='')}" for name in made]:
                    assert crowd.client.get(path_of_one).status_code == 200, case
                    assert crowd.client.delete(path_of_one).status_code == 202, case
                crowd.tick(3)
        assert names(crowd) == ["good"], field
        assert lanes_of(crowd, "good") == ["t-0", "t-1"], field
    assert not crowd.health.has_died.is_set()


@pytest.mark.parametrize(("path", "body", "field"), ACTIONS, ids=lambda one: str(one)[:60])
def test_whatever_is_asked_is_refused_or_done(
    crowd: Site, path: str, body: Mapping[str, Any], field: Sequence[str]
) -> None:
    for name, value in VALUES.items():
        check(post(crowd, path, with_value(body, field, value)), name)
    crowd.client.post("/v1/datastreams/good/resume-partitions", json={"partitions": {"t": "*"}})
    crowd.tick(3)
    assert lanes_of(crowd, "good") == ["t-0", "t-1"]
    assert crowd.session.children("/requests") == ()
    assert crowd.client.get("/v1/events").status_code == 200
    assert not crowd.health.has_died.is_set()


@pytest.mark.deep
@pytest.mark.parametrize("field", STORED_FIELDS, ids=".".join)
def test_whatever_is_stored_is_listed_and_deleted_and_harms_nobody(crowd: Site, field: Sequence[str]) -> None:
    stored = {}
    for number, (name, value) in enumerate(VALUES.items()):
        own = {**STORED, "name": f"bad-{number:02}", "naming": f"bad-{number}.*"}
        data = with_value(own, field, value)
        if len(data) <= node_codec.CHUNK_BYTES:
            stored[f"bad-{number:02}"] = name
            crowd.session.create(f"/datastreams/bad-{number:02}", data)
    crowd.tick(2)
    assert names(crowd) == [*stored, "good"]
    for bad, name in stored.items():
        check(crowd.client.get(f"/v1/datastreams/{bad}"), name)
        check(crowd.client.get(f"/datastream/{bad}"), name)
        check(crowd.client.post(f"/v1/datastreams/{bad}/pause", json={}), name)
        check(crowd.client.post("/v1/rebalance", json={"datastream": bad, "dry_run": True}), name)
    assert lanes_of(crowd, "good") == ["t-0", "t-1"]
    for bad, name in stored.items():
        assert crowd.client.delete(f"/v1/datastreams/{bad}").status_code == 202, name
    crowd.tick(3)
    assert crowd.session.children("/datastreams") == ("good",)
    assert lanes_of(crowd, "good") == ["t-0", "t-1"]
    assert not crowd.health.has_died.is_set()
    assert names(crowd) == ["good"]


@pytest.mark.parametrize("data", NODES.values(), ids=NODES.keys())
def test_a_damaged_definition_is_shown_with_its_problem_and_deleted_by_either_door(
    crowd: Site, data: bytes
) -> None:
    for door in ("/v1/datastreams/bad", "/datastream/bad"):
        crowd.session.create("/datastreams/bad", data)
        crowd.tick()
        shown = crowd.client.get("/v1/datastreams/bad").json()
        assert shown["status"] == "DAMAGED"
        assert shown["problem"]["reason"]
        assert crowd.client.get("/v1/datastreams").json()[0] == shown
        assert "headrace.problem" in crowd.client.get("/datastream/bad").json()["metadata"]
        refused = crowd.client.post("/v1/datastreams/bad/pause", json={})
        assert (refused.status_code, refused.json()["kind"]) == (409, "DamagedState")
        assert crowd.client.delete(door).status_code < 300
        crowd.tick()
        assert names(crowd) == ["good"]
    crowd.create("bad", destination={"cluster": "destination", "name": "bad.*"})
    assert crowd.client.get("/v1/datastreams/bad").json()["status"] == "READY"


def test_what_was_known_of_a_definition_is_shown_and_it_runs_on(crowd: Site) -> None:
    assert crowd.client.get("/v1/datastreams").status_code == 200
    stored = crowd.session.read("/datastreams/good")
    crowd.session.write("/datastreams/good", b"\xff", stored.version)
    crowd.tick(3)
    (shown,) = crowd.client.get("/v1/datastreams").json()
    assert (shown["status"], shown["source"]["topics"]) == ("DAMAGED", "t")
    assert lanes_of(crowd, "good") == ["t-0", "t-1"]
    assert crowd.client.delete("/v1/datastreams/good").status_code == 202
    crowd.tick(3)
    assert lanes_of(crowd, "good") == []


@pytest.mark.parametrize("name", ["%FF", "ä", "%2e%2E", "a%2Fb", "\u200b", "x" * 1_000])
def test_znodes_of_names_that_none_of_ours_has_are_listed_and_deleted(crowd: Site, name: str) -> None:
    crowd.session.create(f"/datastreams/{name}/below", b"{")
    crowd.tick()
    listed = [one for one in crowd.client.get("/v1/datastreams").json() if one["name"] != "good"]
    assert [one["status"] for one in listed] == ["DAMAGED"]
    path = f"/v1/datastreams/{znodes.child('', listed[0]['name'])[1:].replace('%2F', '%252F')}"
    assert crowd.client.delete(path).status_code == 202, path
    assert names(crowd) == ["good"]


@pytest.mark.parametrize(
    "path",
    [
        "/live/i-00000000{}",
        "/live/i-99999999{}",
        "/live/x{}",
        "/holdings/i-99999999{}",
        "/holdings/x{}",
        "/leaving/x{}",
        "/requests/r-00000000{}",
        "/requests/x{}",
        "/events/e-00000000{}",
        "/events/x/y{}",
        "/loads/two/00{}",
        "/loads/x{}",
        "/plan/good/x{}",
        "/plan/x/y{}",
        "/problems/x/y{}",
        "/unreported-of/x{}",
    ],
)
def test_no_other_node_harms_anybody_either(crowd: Site, path: str) -> None:
    for number, data in enumerate(NODES.values(), start=10):
        crowd.session.create(path.format(number), data)
    check_that_a_later_one_comes_and_goes(crowd)


@pytest.mark.parametrize("data", NODES.values(), ids=NODES.keys())
def test_a_damaged_problem_harms_nobody_either(crowd: Site, data: bytes) -> None:
    crowd.session.create("/problems/good", data)
    check_that_a_later_one_comes_and_goes(crowd)


def check_that_a_later_one_comes_and_goes(crowd: Site) -> None:
    crowd.create("later", destination={"cluster": "destination", "name": "later.*"})
    crowd.tick(3)
    assert lanes_of(crowd, "good") == lanes_of(crowd, "later") == ["t-0", "t-1"]
    for address in ("/v1/plan", "/v1/events", "/v1/instances", "/v1/lanes", "/v1/health", "/health"):
        check(crowd.client.get(address), address)
    assert names(crowd) == ["good", "later"]
    assert crowd.client.delete("/v1/datastreams/later").status_code == 202
    crowd.tick(4)
    assert names(crowd) == ["good"]
    assert not crowd.health.has_died.is_set()


@pytest.mark.parametrize("data", NODES.values(), ids=NODES.keys())
def test_a_damaged_document_of_the_plan_is_written_again(crowd: Site, data: bytes) -> None:
    crowd.create("later", destination={"cluster": "destination", "name": "later.*"})
    (name,) = crowd.session.children("/plan/later")
    crowd.session.write(f"/plan/later/{name}", data, 0)
    other = Site(crowd.server, "two")
    other.tick()
    crowd.create("third", destination={"cluster": "destination", "name": "third.*"})
    crowd.tick(2)
    other.tick(2)
    crowd.tick(2)
    for group in ("good", "later", "third"):
        assert sorted(lanes_of(crowd, group) + lanes_of(other, group)) == ["t-0", "t-1"], group


@pytest.mark.parametrize("body", [b'{"a":1', b"[" * 2_000, b'"' + b"x" * 900_000 + b'"', b"\xff", b"NaN"])
def test_bodies_that_are_none_are_refused(crowd: Site, body: bytes) -> None:
    for path in ("/v1/datastreams", "/datastream", "/v1/rebalance", "/datastream/good?action=movePartitions"):
        answer = post(crowd, path, body)
        assert answer.status_code == (413 if len(body) > 900_000 else 400), path
        check(answer, path)


def test_what_a_lane_says_is_sent_whatever_is_in_it(crowd: Site) -> None:
    workers = crowd.follower.workers
    key = next(iter(workers.lanes))
    workers.pause(key, "the record \udfff is refused")
    crowd.tick(1)
    answer = crowd.client.get("/v1/lanes")
    assert answer.status_code == 200
    assert "\\udfff is refused" in answer.content.decode()
    assert "is_well" in crowd.client.get("/v1/health").json()
    assert crowd.client.get("/metrics").status_code == 200
