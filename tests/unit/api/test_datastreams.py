"""Test /v1/datastreams."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client

from mirror.errors import Unreachable
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import LatencyObjective, StartPosition
from mirror.model.load import TaskLimits
from tests.builders import a_key
from tests.fakes.site import Site, a_body

FULL: dict[str, Any] = {
    "name": "full",
    "source": {
        "cluster": "source",
        "topics": "a.*",
        "exclude": "a-tmp",
        "internal": True,
        "match_all": False,
    },
    "owner": "me",
    "destination": {
        "cluster": "destination",
        "name": "copy.*",
        "shared": True,
        "grow_existing": False,
        "adopt": False,
        "excluded_settings": ["retention.ms", "segment.bytes"],
    },
    "start": "latest",
    "guarantee": "exactly-once",
    "policies": {
        "isolation": "read-committed",
        "on_loss": "continue",
        "on_rejection": "dead-letter",
        "path": "record",
        "transforms": ["drop-header:a", "keep-keys:b"],
    },
    "quota": {"bytes_per_second": 1000},
    "groups": {
        "include": "billing|audit",
        "exclude": "connect-.*",
        "interval_seconds": 2,
        "direction": "both",
    },
    "limits": {"min_tasks": 2, "max_tasks": 5, "max_partitions_per_task": 10},
    "objective": {"milliseconds": 500, "percentile": 99.9},
    "objectives": [
        {
            "milliseconds": 2000,
            "target_percent": 99.5,
            "percentile": 99.9,
            "window_seconds": 300,
            "period_days": 7,
        }
    ],
    "monitor": "observe",
    "canary": True,
    "audit": "sampled",
    "audit_lateness_seconds": 90,
    "placement": {
        "capacity_bytes_per_second": "learned",
        "capacity_messages_per_second": 5000,
        "utilisation_percent": 80,
        "scale_in_headroom": 0.3,
        "strategy": "simple",
        "load_provider": "none",
    },
    "start_positions": {"orders": {"0": 12, "3": 0}},
    "metadata": {"any.key": "any value"},
}
CHOICES = {
    "owner": "me",
    "headrace.shared-destination": "true",
    "headrace.adopt-existing": "false",
    "headrace.canary": "true",
    "headrace.excluded-settings": "retention.ms\nsegment.bytes",
    "headrace.guarantee": "exactly-once",
    "headrace.on-loss": "continue",
    "headrace.on-rejection": "dead-letter",
    "headrace.path": "record",
    "headrace.transforms": "drop-header:a\nkeep-keys:b",
    "headrace.bytes-per-second": "1000",
    "headrace-objectives": "p99.9 within 2000 ms over 300 s, 99.5 % over 7 d",
    "headrace-monitor": "observe",
    "headrace-audit": "sampled",
    "headrace-audit-lateness": "90",
    "headrace-groups": "billing|audit",
    "headrace-groups-exclude": "connect-.*",
    "headrace-groups-interval": "2",
    "headrace-groups-direction": "both",
    "headrace-placement": "capacity learned, messages 5000, utilisation 80, headroom 0.3, strategy simple, "
    "provider none",
    "headrace-start-positions": '{"orders":{"0":12,"3":0}}',
}
"""The fields of FULL as metadata."""


def test_a_definition_is_answered_as_it_was_given(client: Client, site: Site) -> None:
    created = client.post("/v1/datastreams", json=FULL)
    assert created.status_code == 201
    assert created.headers["location"] == "/v1/datastreams/full"
    metadata: Any = FULL["metadata"]
    stamped = {**metadata, "system.creation.ms": str(site.clock.now_ms())}
    added = {"status": "INITIALIZING", "metadata": stamped, "pauses": {}, "problem": None, "halt": None}
    added["planning"] = None
    assert created.json() == FULL | added
    assert client.get("/v1/datastreams/full").json() == created.json()
    stored = site.stored("full")
    assert stored.limits == TaskLimits(2, 5, 10)
    assert stored.objective == LatencyObjective(500, 99.9)
    assert stored.start is StartPosition.LATEST
    assert stored.metadata == {**stamped, **CHOICES}


def test_what_is_not_given_has_a_default(client: Client) -> None:
    answer = client.post("/v1/datastreams", json=a_body()).json()
    assert answer["destination"] == {
        "cluster": "destination",
        "name": "*",
        "shared": False,
        "grow_existing": False,
        "adopt": None,
        "excluded_settings": [],
    }
    assert (answer["guarantee"], answer["quota"]) == ("effectively-once", {"bytes_per_second": None})
    assert answer["policies"] == {
        "isolation": "read-committed",
        "on_loss": "halt",
        "on_rejection": "pause",
        "path": "auto",
        "transforms": [],
    }
    assert answer["groups"] == {
        "include": None,
        "exclude": None,
        "interval_seconds": 5,
        "direction": "forward",
    }
    assert answer["start"] == "earliest"
    assert answer["limits"] == {"min_tasks": 1, "max_tasks": None, "max_partitions_per_task": None}
    assert answer["objective"] is None


def test_keys_of_the_metadata_say_what_fields_say(client: Client, site: Site) -> None:
    fields = {key: FULL[key] for key in ("source", "start", "limits", "objective", "destination")}
    by_keys = {**fields, "name": "full", "metadata": {**CHOICES, "any.key": "any value"}}
    by_keys["destination"] = {"cluster": "destination", "name": "copy.*"}
    answer = client.post("/v1/datastreams", json=by_keys)
    assert answer.status_code == 201, answer.text
    assert {key: answer.json()[key] for key in FULL if key != "metadata"} == {
        key: value for key, value in FULL.items() if key != "metadata"
    }
    assert CHOICES.items() <= site.stored("full").metadata.items()
    both = (
        FULL
        | {"name": "both", "metadata": CHOICES}
        | {"destination": {"cluster": "destination", "name": "b.*"}}
    )
    assert client.post("/v1/datastreams", json=both).status_code == 201, "redundant but consistent"
    brooklin = client.get("/datastream/full").json()
    positions = CHOICES["headrace-start-positions"]
    keys = {key: value for key, value in CHOICES.items() if value != positions}
    keys["system.start.position"] = positions
    assert keys.items() <= brooklin["metadata"].items(), "Brooklin's clients must see the keys"


def test_all_that_is_wrong_with_a_creation_is_said_at_once(client: Client, site: Site) -> None:
    body = {
        "name": "a/b",
        "source": {"cluster": "a:b", "topics": "(", "exclude": "["},
        "destination": {"cluster": "", "name": "copy"},
        "limits": {"min_tasks": 3, "max_tasks": 2},
        "policies": {"transforms": ["a\nb"]},
        "metadata": {"system.start.position": "5", "headrace.path": "nowhere"},
    }
    answer = client.post("/v1/datastreams", json=body)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest")
    assert {one["pointer"] for one in answer.json()["errors"]} == {
        "/name",
        "/owner",
        "/source/cluster",
        "/source/topics",
        "/source/exclude",
        "/destination/cluster",
        "/destination/name",
        "/limits",
        "/policies/transforms",
        "/metadata/system.start.position",
        "/metadata/headrace.path",
    }


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"owner": "a", "metadata": {"owner": "b"}}, {"/owner", "/metadata/owner"}),
        (
            {"owner": "a", "quota": {"bytes_per_second": 5}, "metadata": {"headrace.bytes-per-second": "6"}},
            {"/quota/bytes_per_second", "/metadata/headrace.bytes-per-second"},
        ),
        (
            {"owner": "a", "destination": {"cluster": "destination", "shared": False}}
            | {"metadata": {"headrace.shared-destination": "true"}},
            {"/destination/shared", "/metadata/headrace.shared-destination"},
        ),
        (
            {"owner": "a", "guarantee": "exactly-once", "policies": {"isolation": "read-uncommitted"}},
            {"/guarantee", "/policies/isolation"},
        ),
        (
            {"owner": "a", "policies": {"transforms": ["x"]}, "metadata": {"headrace.path": "passthrough"}},
            {"/policies/transforms", "/metadata/headrace.path"},
        ),
    ],
    ids=["owner", "quota", "destination", "two fields", "a field and a key"],
)
def test_fields_that_contradict_each_other_are_both_named(
    client: Client, site: Site, change: dict[str, Any], wrong: set[str]
) -> None:
    answer = client.post("/v1/datastreams", json={**a_body(metadata={}), **change})
    assert (answer.status_code, answer.json()["kind"]) == (422, "RefusedFields")
    assert {one["pointer"] for one in answer.json()["errors"]} == wrong
    assert site.definitions.names() == ()


@pytest.mark.parametrize(
    ("given", "shown", "stored"),
    [
        ("earliest-local", "earliest-local", (StartPosition.EARLIEST_LOCAL, None)),
        (
            "2026-11-21T10:00:00+02:00",
            "2026-11-21T08:00:00.000Z",
            (StartPosition.TIMESTAMP, 1_795_248_000_000),
        ),
        (1_795_248_000_123, "2026-11-21T08:00:00.123Z", (StartPosition.TIMESTAMP, 1_795_248_000_123)),
    ],
    ids=str,
)
def test_a_start_is_a_word_or_a_moment(
    client: Client, site: Site, given: object, shown: str, stored: tuple[StartPosition, int | None]
) -> None:
    answer = client.post("/v1/datastreams", json=a_body(start=given))
    assert (answer.status_code, answer.json()["start"]) == (201, shown)
    assert (site.stored("orders").start, site.stored("orders").start_ms) == stored
    etag = {"If-Match": answer.headers["ETag"]}
    same = client.put("/v1/datastreams/orders", json=answer.json() | {"start": given}, headers=etag)
    assert (same.status_code, same.headers["ETag"]) == (200, answer.headers["ETag"])
    other = client.patch("/v1/datastreams/orders", json={"start": 1_795_248_000_124}, headers=etag)
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "/start")


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("minTasks", "2", "/limits/min_tasks"),
        ("maxTasks", "x", "/limits/max_tasks"),
        ("partitionsPerTask", "7", "/limits/max_partitions_per_task"),
        ("system.auto.offset.reset", "earliest", "/start"),
        ("system.auto.offset.reset", "none", "/start"),
        ("system.destination.destinationTopicPrefix", "other.", "/destination/name"),
    ],
    ids=str,
)
def test_brooklins_keys_of_what_is_a_field_here_say_the_same_or_are_refused(
    client: Client, site: Site, key: str, value: str, field: str
) -> None:
    said = {
        "minTasks": "1",
        "maxTasks": "4",
        "partitionsPerTask": "",
        "system.auto.offset.reset": "2026-11-21T08:00:00Z",
        "system.destination.destinationTopicPrefix": "copy.",
    }
    body = a_body(
        start=1_795_248_000_000,
        limits={"max_tasks": 4},
        destination={"cluster": "destination", "name": "copy.*"},
        metadata={"owner": "tests", **said, key: value},
    )
    answer = client.post("/v1/datastreams", json=body)
    assert answer.status_code == 422
    assert {one["pointer"] for one in answer.json()["errors"]} == {field, f"/metadata/{key}"}
    body["metadata"][key] = said[key]
    assert client.post("/v1/datastreams", json=body).status_code == 201
    change = {"limits": {"max_tasks": 5}, "metadata": {"note": "n"}}
    changed = client.patch("/v1/datastreams/orders", json=change, headers={"If-Match": "*"})
    assert changed.status_code == 200, "an existing key must not block the change"
    assert client.get("/datastream/orders").json()["metadata"]["maxTasks"] == "5"


def test_the_list_is_sorted_by_name(client: Client) -> None:
    assert client.get("/v1/datastreams").json() == []
    for name in ("b", "a", "c"):
        body = a_body(name, destination={"cluster": "destination", "name": f"{name}.*"})
        assert client.post("/v1/datastreams", json=body).status_code == 201
    assert [one["name"] for one in client.get("/v1/datastreams").json()] == ["a", "b", "c"]


def test_a_cluster_may_be_named_by_its_address(client: Client, site: Site) -> None:
    body = a_body(source={"cluster": "source-host:9092", "topics": "t"})
    assert client.post("/v1/datastreams", json=body).status_code == 201
    assert site.stored("orders").source == "source"


def test_the_same_cluster_under_two_names_is_still_the_same(client: Client) -> None:
    body = a_body(destination={"cluster": "source-host:9092"})
    answer = client.post("/v1/datastreams", json=body)
    assert answer.status_code == 400
    assert "onto themselves" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "cannot be the name of"),
        ({"name": "a/b"}, "cannot be the name of"),
        ({"name": "\ud800"}, "surrogates not allowed"),
        ({"name": 5}, "name"),
        ({"source": None}, "source"),
        ({"source": {"cluster": "source"}}, "source.topics"),
        ({"source": {"cluster": "source", "topics": "("}}, "regular expression"),
        ({"source": {"cluster": "elsewhere", "topics": "t"}}, "'elsewhere'"),
        ({"source": {"cluster": "source", "topics": "t", "extra": 1}}, "source.extra"),
        ({"destination": {"cluster": "source"}}, "onto themselves"),
        ({"destination": {"cluster": "destination", "name": "copy"}}, "must contain one"),
        ({"start": "middle"}, "start"),
        ({"limits": {"min_tasks": 0}}, "limits.min_tasks"),
        ({"limits": {"min_tasks": 3, "max_tasks": 2}}, "below min_tasks"),
        ({"objective": {"milliseconds": 0}}, "objective.milliseconds"),
        ({"objective": {"milliseconds": 5, "percentile": 100}}, "objective.percentile"),
        ({"metadata": {}}, "owner"),
        ({"metadata": {"owner": 5}}, "metadata.owner"),
        ({"metadata": {"owner": "x", "note": "y" * 500_000}}, "500000 characters"),
        ({"guarantee": "twice"}, "guarantee"),
        ({"policies": {"on_damage": "skip"}}, "policies.on_damage"),
        ({"quota": {"bytes_per_second": 0}}, "quota.bytes_per_second"),
        ({"priority": 1}, "priority"),
        ({"capacity": {"bytes_per_second": 5}}, "capacity"),
        ({"objectives": [{"milliseconds": 5}]}, "objectives.0.target_percent"),
        ({"objectives": [{"milliseconds": 5, "target_percent": 100}]}, "objectives.0.target_percent"),
        ({"objectives": [{"milliseconds": 5, "target_percent": 99}] * 2}, "an objective twice"),
        (
            {"objectives": [{"milliseconds": one, "target_percent": 99} for one in range(1, 12)]},
            "objectives",
        ),
        ({"metadata": {"owner": "x", "headrace-objectives": "soon"}}, "'soon'"),
        ({"monitor": "sleep"}, "monitor"),
        ({"groups": {"include": "("}}, "groups"),
        ({"groups": {"include": ""}}, "groups"),
        ({"groups": {"interval_seconds": 0.05}}, "groups.interval_seconds"),
        ({"metadata": {"owner": "x", "headrace-groups-interval": "nan"}}, "'nan'"),
        ({"groups": {"direction": "back"}}, "groups.direction"),
        ({"metadata": {"owner": "x", "headrace-monitor": "sleep"}}, "cannot be 'sleep'"),
        ({"placement": {"capacity_bytes_per_second": 0}}, "placement.capacity_bytes_per_second"),
        ({"placement": {"capacity_bytes_per_second": "much"}}, "placement.capacity_bytes_per_second"),
        ({"placement": {"capacity_messages_per_second": 1.5}}, "placement.capacity_messages_per_second"),
        ({"placement": {"utilisation_percent": 101}}, "placement.utilisation_percent"),
        ({"placement": {"scale_in_headroom": 1}}, "placement.scale_in_headroom"),
        ({"placement": {"load_provider": "-a"}}, "placement.load_provider"),
        ({"placement": {"room": 5}}, "placement.room"),
        ({"metadata": {"owner": "x", "headrace-placement": "capacity much"}}, "capacity in metadata"),
        ({"metadata": {"owner": "x", "headrace-placement": "room 5"}}, "'room 5'"),
        ({"unreported": 1}, "unreported"),
    ],
    ids=str,
)
def test_a_definition_that_cannot_be_accepted_is_refused_by_the_field(
    client: Client, change: dict[str, Any], said: str
) -> None:
    content = json.dumps(a_body() | change)
    answer = client.post("/v1/datastreams", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == 400
    assert said in problem["detail"]
    assert client.get("/v1/datastreams").json() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'"text"'])
def test_what_is_no_definition_at_all(client: Client, content: bytes) -> None:
    answer = client.post("/v1/datastreams", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["kind"] == "InvalidRequest"


def test_a_name_is_taken_once(client: Client) -> None:
    client.post("/v1/datastreams", json=a_body())
    answer = client.post("/v1/datastreams", json=a_body())
    assert answer.status_code == 409
    assert answer.json()["kind"] == "AlreadyExists"
    assert answer.json()["advice"]


def test_what_is_not_there(client: Client) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/stop")):
        answer = client.request(method, f"/v1/datastreams/nobody{path}", json={})
        assert answer.status_code == 404
        assert answer.json()["kind"] == "NotFound"
        assert "nobody" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["a b", "größe", "数据", "a?b=c", "a#b", "100%", "a+b&c", "a.b"])
def test_any_name_finds_its_way_there_and_back(client: Client, site: Site, name: str) -> None:
    created = client.post("/v1/datastreams", json=a_body(name))
    assert created.status_code == 201
    location = created.headers["location"]
    assert location == f"/v1/datastreams/{quote(name, safe='')}"
    assert client.get(location).json()["name"] == name
    assert client.delete(location).status_code == 202
    site.tick(3)
    assert client.get("/v1/datastreams").json() == []


def test_pause_resume_stop_delete(client: Client, site: Site) -> None:
    site.create()
    assert site.follower.lanes == ["t-0", "t-1"]
    assert client.post("/v1/datastreams/orders/pause", json={}).json()["status"] == "PAUSED"
    site.tick()
    assert site.follower.lanes == []
    assert client.post("/v1/datastreams/orders/resume", json={}).json()["status"] == "READY"
    site.tick()
    assert site.follower.lanes == ["t-0", "t-1"]
    assert client.post("/v1/datastreams/orders/stop", json={}).json()["status"] == "STOPPING"
    site.tick()
    assert client.get("/v1/datastreams/orders").json()["status"] == "STOPPED"
    deleted = client.delete("/v1/datastreams/orders")
    assert (deleted.status_code, deleted.json()["status"]) == (202, "DELETING")
    site.tick()
    assert client.get("/v1/datastreams/orders").status_code == 404


def test_what_the_state_does_not_allow_says_what_it_would(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/v1/datastreams/orders/resume", json={})
    assert answer.status_code == 409
    detail = answer.json()["detail"]
    assert "orders is READY" in detail
    assert "from PAUSED, STOPPED" in detail


def test_an_action_that_does_not_exist(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/v1/datastreams/orders/explode", json={})
    assert answer.status_code == 404
    assert answer.json()["kind"] == "NotFound"
    assert "/v1/datastreams/orders/explode" in answer.json()["detail"]


def test_without_zookeeper_every_answer_says_so(client: Client, site: Site) -> None:
    site.session.disconnect()
    for method, path, body in (
        ("GET", "/v1/datastreams", None),
        ("GET", "/v1/datastreams/orders", None),
        ("POST", "/v1/datastreams", a_body()),
        ("DELETE", "/v1/datastreams/orders", None),
        ("GET", "/v1/plan", None),
        ("GET", "/v1/events", None),
        ("GET", "/v1/instances", None),
        ("POST", "/v1/rebalance", {"datastream": "orders"}),
    ):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 503, (method, path)
        assert answer.json()["kind"] == "Unreachable"


def test_partitions_are_paused_with_a_reason_and_resumed(client: Client, site: Site) -> None:
    site.create()
    body = {"partitions": {"t": "1"}, "reason": "too large"}
    answer = client.post("/v1/datastreams/orders/pause-partitions", json=body)
    assert answer.status_code == 200
    (pause,) = answer.json()["pauses"].values()
    assert (pause["partitions"], pause["reason"]) == ([1], "too large")
    site.tick()
    assert site.follower.lanes == ["t-0"]
    answer = client.post("/v1/datastreams/orders/resume-partitions", json={"partitions": {"t": "*"}})
    assert answer.json()["pauses"] == {}
    site.tick()
    assert site.follower.lanes == ["t-0", "t-1"]


def test_partitions_are_moved_by_the_next_plan(client: Client, site: Site) -> None:
    site.create()
    body = {"partitions": ["t-0"], "instance": "one"}
    answer = client.post("/v1/datastreams/orders/move", json=body)
    assert answer.status_code == 202
    assert answer.json()["request"] == site.leader.stores.requests.pending()[0].identity
    site.tick()
    assert site.leader.stores.requests.pending() == ()
    answer = client.post("/v1/datastreams/orders/move", json={**body, "instance": "nobody"})
    assert answer.status_code == 400
    assert answer.json()["advice"].endswith(": one")


def test_what_became_of_every_offset_is_told(client: Client, site: Site) -> None:
    site.create(destination={"cluster": "destination", "name": "copy.*"})
    ledger, offset_map = Ledger(3), OffsetMap()
    ledger.enter(OffsetClass.MIRRORED, 5)
    ledger.enter(OffsetClass.LOST, 2)
    offset_map.add(3, 40, 5)
    stored = LaneProgress(ledger, offset_map, gaps=["8 to 9"], target_topic="copy.t")
    site.progress = {a_key("t-0"): stored, a_key("unrelated-0"): stored, a_key("t-0", "other"): stored}
    (lane,) = client.get("/v1/datastreams/orders/progress").json()
    assert (lane["topic"], lane["partition"], lane["destination_topic"]) == ("t", 0, "copy.t")
    assert (lane["start_offset"], lane["next_offset"], lane["is_balanced"]) == (3, 10, True)
    assert {offset_class: count for offset_class, count in lane["offsets"].items() if count} == {
        "mirrored": 5,
        "lost": 2,
    }
    assert (lane["map_runs"], lane["offset_map"], lane["gaps"]) == (1, None, ["8 to 9"])
    (lane,) = client.get("/v1/datastreams/orders/progress", params={"offset_map": True}).json()
    assert lane["offset_map"] == [[3, 40, 5]]
    assert client.get("/v1/datastreams/nobody/progress").status_code == 404


def test_what_is_wrong_with_a_datastream_is_shown_with_it(client: Client, site: Site) -> None:
    site.destination.failure = Unreachable("destination is down")
    site.create()
    problem = client.get("/v1/datastreams/orders").json()["problem"]
    assert problem["reason"] == "destination is down"
    assert client.get("/v1/datastreams").json()[0]["problem"] == problem
    parts = client.get("/v1/health").json()["parts"]
    assert parts["datastream orders"] == {"is_well": False, "sentence": "destination is down"}
    assert 'headrace_datastream_problem{datastream="orders"} 1.0' in client.get("/metrics").text
    site.destination.failure = None
    site.tick()
    assert client.get("/v1/datastreams/orders").json()["problem"] is None
    assert "headrace_datastream_problem{" not in client.get("/metrics").text


@pytest.mark.parametrize(
    ("field", "value"), [("internal", 0), ("internal", "no"), ("topics", 5), ("exclude", None)]
)
def test_nothing_is_made_of_a_value_of_another_type(client: Client, field: str, value: object) -> None:
    body = a_body()
    body["source"][field] = value
    answer = client.post("/v1/datastreams", json=body)
    assert answer.status_code == 400
    assert [one["pointer"] for one in answer.json()["errors"]] == [f"/source/{field}"]


def test_every_topic_is_taken_only_where_that_is_said(client: Client, site: Site) -> None:
    everything = {"cluster": "source", "topics": ".*"}
    refused = client.post("/v1/datastreams", json=a_body("all", source=everything))
    assert (refused.status_code, [one["pointer"] for one in refused.json()["errors"]]) == (
        400,
        ["/source/topics"],
    )
    assert "match_all" in refused.text
    less = {**everything, "exclude": "tmp-.*"}
    assert client.post("/v1/datastreams", json=a_body("all", source=less)).status_code == 201
    header = {"If-Match": "*"}
    wider = {"source": {"exclude": ""}}
    refused = client.patch("/v1/datastreams/all", json=wider, headers=header)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/source/topics")
    said = {"source": {"exclude": "", "match_all": True}}
    assert client.patch("/v1/datastreams/all", json=said, headers=header).status_code == 200
    found = client.get("/v1/datastreams/all").json()
    assert found["source"]["match_all"]
    del found["source"]["match_all"]  # as a client that does not know the field sends it back
    assert client.put("/v1/datastreams/all", json=found, headers=header).status_code == 200


def test_brooklins_clients_have_no_such_word(client: Client, site: Site) -> None:
    document = {
        "name": "all",
        "connectorName": "kafkaMirroringConnector",
        "source": {"connectionString": "kafka://source-host:9092/^.*$"},
        "metadata": {"owner": "tests"},
    }
    assert client.post("/datastream", json=document).status_code == 201
    assert client.get("/v1/datastreams/all").json()["source"]["match_all"]


@pytest.mark.parametrize(
    "positions",
    [
        {"t/": {"0": 1}},
        {"t": {"-1": 1}},
        {"t": {"x": 1}},
        {"t": {"0": -1}},
        {"t": {"0": "1"}},
        {"t": {"0": 2**63}},
        {"t": 5},
    ],
)
def test_positions_that_cannot_be_are_refused(positions: Any, client: Client, site: Site) -> None:
    for fields in ({"start_positions": positions}, {"start": {"positions": positions}}):
        assert client.post("/v1/datastreams", json=a_body(**fields)).status_code == 400
    assert site.definitions.names() == ()


def test_a_start_may_have_positions(client: Client, site: Site) -> None:
    start = {"at": "latest", "positions": {"t": {"1": 12}}}
    answer = client.post("/v1/datastreams", json=a_body(start=start))
    assert answer.status_code == 201, answer.text
    assert (answer.json()["start"], answer.json()["start_positions"]) == ("latest", {"t": {"1": 12}})
    site.tick(2)
    specs = site.follower.workers.lanes
    assert {str(key.partition): one.spec.start_offset for key, one in specs.items()} == {
        "t-0": None,
        "t-1": 12,
    }
    path = "/v1/datastreams/orders"
    kept = client.patch(path, json={"owner": "others"}, headers={"If-Match": "*"})
    assert kept.json()["start_positions"] == {"t": {"1": 12}}
    whole = {key: one for key, one in kept.json().items() if key != "start_positions"}
    assert client.put(path, json=whole, headers={"If-Match": "*"}).status_code == 200, "the field is optional"
    for change in ({"t": {"1": 13}}, {"u": {"0": 1}}, None):
        refused = client.patch(path, json={"start_positions": change}, headers={"If-Match": "*"})
        assert refused.status_code == 422
    assert client.get(path).json()["start_positions"] == {"t": {"1": 12}}


def test_a_restart_forgets_the_positions(client: Client, site: Site) -> None:
    client.post("/v1/datastreams", json=a_body(start_positions={"*": {"1": 12}}))
    site.tick(2)
    restarted = client.post("/v1/datastreams/orders/restart-from", json={"start": "earliest"})
    assert restarted.status_code == 200, restarted.text
    site.tick(2)
    assert {one.spec.start_offset for one in site.follower.workers.lanes.values()} == {None}
