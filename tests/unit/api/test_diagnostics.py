"""Test /diag and /health: the report of an instance about its own lanes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import Client

from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from tests.fakes.site import Site

ASKED = {"q": "status", "type": "connector", "scope": "headrace"}


def element_of(client: Client, content: str, **more: str) -> dict[str, Any]:
    answer = client.get("/diag", params={**ASKED, "content": content, **more})
    assert answer.status_code == 200, answer.text
    assert answer.json()["paging"] == {"start": 0, "count": 10, "links": []}
    (element,) = answer.json()["elements"]
    assert element["instanceName"] == "one"
    return dict(element)


def content(client: Client, path: str) -> Any:
    element = element_of(client, path)
    assert (element["succeeded"], element["errorMessages"]) == (True, "")
    return json.loads(element["status"])


def test_the_state_of_a_datastream(client: Client, site: Site) -> None:
    site.create()
    client.post("/v1/datastreams/orders/pause-partitions", json={"partitions": {"t": "1"}})
    site.tick()
    (key,) = site.follower.workers.lanes
    site.follower.workers.pause(key, "oversize")
    site.follower.run_loop()
    assert content(client, "/Datastream_State?datastream=orders") == {
        "datastream": "orders",
        "assignedTopicPartitions": ["t-0"],
        "autoPausedPartitions": {"t-0": {"reason": "PAUSED", "description": "oversize"}},
        "manualPausedPartitions": {"t": ["1"]},
    }


def test_partitions_by_consumer_group(client: Client, site: Site) -> None:
    assert content(client, "/partitions") == []
    site.create(metadata={"owner": "tests", "group.id": "mine"})
    (found,) = content(client, "/partitions")
    assert found == {
        "consumerGroupId": "mine",
        "sourceInstance": "one",
        "topicPartitions": {"t": [0, 1]},
        "datastreams": ["orders"],
    }


def test_offsets_that_are_stored(client: Client, site: Site) -> None:
    site.create()
    for key in site.follower.workers.lanes:
        if key.partition.partition == 0:
            site.progress[key] = LaneProgress(Ledger(10), OffsetMap())
    (found,) = content(client, "/consumer_offsets")
    assert found["committedOffsets"] == {"t": {"0": 10}}
    assert found["consumedOffsets"] == {"t": {"0": 9}}
    assert found["consumptionLagMap"] == {"t": {"0": -1, "1": -1}}
    assert content(client, "/consumer_offsets?datastream=orders") == [found]


@pytest.mark.parametrize(
    "path",
    [
        "/position",
        "",
        "/datastream_state",
        "/datastream_state?datastream=x",
        "/consumer_offsets?datastream=x",
    ],
)
def test_what_cannot_be_said_has_not_succeeded(client: Client, site: Site, path: str) -> None:
    site.create()
    element = element_of(client, path)
    assert (element["succeeded"], element["status"]) == (False, "")
    assert element["errorMessages"]


@pytest.mark.parametrize("name", ["type", "scope", "content", "q"])
def test_a_call_that_leaves_something_out_is_refused(client: Client, name: str) -> None:
    asked = {**ASKED, "content": "/partitions"}
    del asked[name]
    assert client.get("/diag", params=asked).status_code == 400
    assert client.get("/diag", params={**asked, name: "no-such"}).status_code in {200, 400}


@pytest.mark.parametrize("other", [{"q": "nosuch"}, {"type": "transport"}, {"scope": "nobody"}])
def test_what_nobody_has_is_refused(client: Client, other: dict[str, str]) -> None:
    assert client.get("/diag", params={**ASKED, "content": "/partitions", **other}).status_code == 400


def test_all_instances_are_by_name_also_those_that_copy_nothing(client: Client, site: Site) -> None:
    site.create()
    element = element_of(client, "/partitions", q="allStatus")
    assert (element["succeeded"], element["errorMessages"]) == (True, "{}")
    assert json.loads(json.loads(element["status"])["one"])[0]["datastreams"] == ["orders"]
    other = Site(site.server, "two")
    other.tick()
    element = element_of(client, "/partitions", q="allStatus")
    assert (element["succeeded"], json.loads(element["errorMessages"])) == (True, {})
    assert json.loads(element["status"]).keys() == {"one", "two"}
    assert json.loads(json.loads(element["status"])["two"]) == []


def test_health_names_all_that_share_a_task_and_where_it_copies(client: Client, site: Site) -> None:
    site.create()
    (connector,) = client.get("/health").json()["connectors"]
    (task,) = connector["tasks"]
    assert task["datastreams"] == "orders"
    assert task["source"] == "kafka://source-host:9092/t"
    assert task["destination"] == "kafka://destination-host:9192/*"
    assert client.get("/health?fields=clusterName").json() == {"clusterName": "tests"}
