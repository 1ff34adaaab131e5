"""Test PUT /datastream as sent by Brooklin's Java client (a batch of one), its generated builder, and curl.

The exchanges were recorded from Brooklin's own client and server; only the cluster names differ.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from httpx import Client, Response

from api.brooklin.restli import batch_keys
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicDescription
from tests.fakes.site import Site, a_body

VERSION = "X-RestLi-Protocol-Version"
JAVA = {VERSION: "2.0.0", "X-LI-R2-W-MsgType": "REST"}


def create(site: Site, name: str = "check-1", topics: str = "^t$", **metadata: str) -> dict[str, Any]:
    """Create a READY datastream and return its definition as GET returns it, ready to be sent back."""
    document = {
        "name": name,
        "connectorName": "kafkaMirroringConnector",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": f"kafka://source-host:9092/{topics}"},
        "metadata": {
            "owner": "team-a",
            "system.destination.destinationTopicPrefix": "copy.",
            "system.reuseExistingDestination": "false",
            "group.id": f"mirror-{name}",
            "datastreamUUID": "cc4c6afa",
            **metadata,
        },
    }
    assert site.client.post("/datastream", json=document, headers=JAVA).status_code == 201
    site.tick()
    return read(site.client, name)


def read(client: Client, name: str = "check-1") -> dict[str, Any]:
    document: dict[str, Any] = client.get(f"/datastream/{quote(name, safe='')}", headers=JAVA).json()
    return document


def batch(client: Client, *documents: dict[str, Any]) -> Response:
    keys = ",".join(quote(one["name"], safe="") for one in documents)
    body = {"entities": {one["name"]: one for one in documents}}
    return client.put(f"/datastream?ids=List({keys})", json=body, headers=JAVA)


def refused(answer: Response, status: int, said: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["X-RestLi-Error-Response"] == "true"
    assert answer.json()["status"] == status
    assert said in answer.json()["message"]


def test_an_update_as_the_java_client_sends_it(site: Site) -> None:
    document = create(site)
    document["metadata"]["owner"] = "team-b"
    answer = batch(site.client, document)
    assert (answer.status_code, answer.headers[VERSION]) == (200, "2.0.0")
    assert answer.json() == {"results": {"check-1": {"status": 200}}, "errors": {}}
    assert read(site.client) == document
    assert site.stored("check-1").status is DatastreamStatus.READY


def test_an_update_of_one_has_no_body(site: Site) -> None:
    document = create(site)
    document["source"]["connectionString"] = "kafka://source-host:9092/^(?!x)(t|u)$"
    document["metadata"] |= {"maxTasks": "3", "headrace.bytes-per-second": "1000"}
    answer = site.client.put("/datastream/check-1", json=document, headers=JAVA)
    assert (answer.status_code, answer.content) == (200, b"")
    assert "content-type" not in answer.headers
    stored = site.stored("check-1")
    assert stored.limits == TaskLimits(1, 3)
    assert stored.policy.bytes_per_second == 1000
    assert stored.selection.matches("u")
    assert not stored.selection.matches("x")
    again = read(site.client)
    assert site.client.put("/datastream/check-1", json=again, headers=JAVA).status_code == 200
    assert site.stored("check-1") == stored, "an unmodified definition changes nothing"


def test_what_the_interface_does_not_show_stays(site: Site) -> None:
    site.create(
        "check-1",
        source={"cluster": "source", "topics": "t|__t", "exclude": "x|y", "internal": True},
        objective={"milliseconds": 500},
        limits={"min_tasks": 2, "max_partitions_per_task": 7},
        start="latest",
    )
    before = site.stored("check-1")
    document = read(site.client)
    assert (document["metadata"]["minTasks"], document["metadata"]["partitionsPerTask"]) == ("2", "7")
    document["metadata"]["note"] = "n"
    assert batch(site.client, document).status_code == 200
    after = site.stored("check-1")
    assert after.metadata["note"] == "n"
    assert (after.selection, after.limits, after.start) == (before.selection, before.limits, before.start)
    assert after.objective == LatencyObjective(500)


def test_pauses_are_shown_and_come_back_as_they_are(site: Site) -> None:
    create(site)
    site.source.topics["u"] = TopicDescription("u", 2)
    act = "/datastream/check-1?action=pauseSourcePartitions"
    site.client.post(act, json={"sourcePartitions": {"t": "0,1", "u": "*"}}, headers=JAVA)
    document = read(site.client)
    assert document["metadata"]["system.pausedSourcePartitions"] == '{"t":["0","1"],"u":["0","1"]}'
    assert batch(site.client, document).status_code == 200
    assert "system.pausedSourcePartitions" not in site.stored("check-1").metadata
    assert site.stored("check-1").pauses.keys() == {"t", "u"}
    document["metadata"]["system.pausedSourcePartitions"] = '{"t":["0"]}'
    refused(batch(site.client, document), 400, "pauseSourcePartitions")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Status": "PAUSED"}, "Can't update status in update request"),
        ({"Status": None}, "Can't update status in update request"),
        ({"connectorName": "another"}, "Can't update connector in update request"),
        ({"transportProviderName": "another"}, "Can't update transport provider in update request"),
        ({"destination": {}}, "Can't update destination in update request"),
        ({"destination": {"connectionString": "kafka://elsewhere:1/copy.*"}}, "/destination/cluster"),
        ({"destination": {"connectionString": "kafka://destination-host:9192/other.*"}}, "/destination/name"),
        ({"source": {"connectionString": "kafka://destination-host:9192/^t$"}}, "/source/cluster"),
        ({"source": {"connectionString": "kafka://source-host:9092/("}}, "/source/topics"),
        ({"source": {"connectionString": "nonsense"}}, "is not a valid kafka connection string"),
        ({"metadata": None}, "metadata must map strings to strings"),
        ({"metadata": {"owner": "a", "numTasks": "4"}}, "numTasks"),
        ({"metadata": {"owner": "a"}}, "/metadata/group.id"),
    ],
    ids=str,
)
def test_what_cannot_change_is_refused(site: Site, change: dict[str, Any], said: str) -> None:
    document = create(site)
    before = site.stored("check-1")
    refused(batch(site.client, {**document, **change}), 400, said)
    assert site.stored("check-1") == before


def test_another_name_and_no_such_name(site: Site) -> None:
    document = create(site)
    answer = site.client.put("/datastream/check-1", json={**document, "name": "other"}, headers=JAVA)
    refused(answer, 400, "Failed to update check-1 because datastream name doesn't match")
    refused(batch(site.client, {**document, "name": "no-such-datastream"}), 404, "no-such-datastream")


def test_only_a_whole_group_is_updated_together(site: Site) -> None:
    one = create(site, "check-1")
    two = create(site, "check-2", "^u$")
    refused(batch(site.client, one, two), 400, "do not form the same datastream group")
    shared = {"system.taskPrefix": "both", "group.id": "both"}
    a, b = create(site, "a", "^v$", **shared), create(site, "b", "^w$", **shared)
    refused(batch(site.client, a), 400, "b missing")
    a["metadata"]["minTasks"] = b["metadata"]["minTasks"] = "3"
    a["metadata"]["maxTasks"], b["metadata"]["maxTasks"] = "2", "5"
    refused(batch(site.client, a, b), 400, "max_tasks 2 is below min_tasks 3")
    a["metadata"]["maxTasks"] = "4"
    assert batch(site.client, a, b).json()["results"].keys() == {"a", "b"}
    assert site.stored("b").limits == TaskLimits(3, 5)


def test_curl_names_keys_one_by_one(site: Site) -> None:
    document = create(site)
    document["metadata"]["owner"] = "team-b"
    answer = site.client.put("/datastream?ids=check-1", json={"entities": {"check-1": document}})
    assert answer.json() == {"results": {"check-1": {"status": 200}}, "errors": {}}
    assert answer.headers[VERSION] == "1.0.0"
    assert site.stored("check-1").metadata["owner"] == "team-b"


def test_an_empty_batch_does_nothing(client: Client) -> None:
    answer = client.put("/datastream?ids=List()", json={"entities": {}}, headers=JAVA)
    assert (answer.status_code, answer.json()) == (200, {"results": {}, "errors": {}})


@pytest.mark.parametrize("body", [{}, {"entities": []}, {"entities": {"other": {}}}, {"entities": {"a": 1}}])
def test_entities_are_those_of_the_keys(client: Client, body: dict[str, Any]) -> None:
    refused(client.put("/datastream?ids=List(a)", json=body, headers=JAVA), 400, "")


@pytest.mark.parametrize(
    "name", ["with space", "a(b),c:d'e", "café", "日本", "100%", "q?x=1&y=#z", "a+b", "~!*;@$+="]
)
def test_names_are_encoded_in_lists(site: Site, name: str) -> None:
    document = create(site, name)
    document["metadata"]["owner"] = "team-b"
    assert batch(site.client, document).json()["results"] == {name: {"status": 200}}
    assert site.stored(name).metadata["owner"] == "team-b"


@pytest.mark.parametrize(
    ("query", "version", "keys"),
    [
        ("ids=List(with%20space)", "2.0.0", ("with space",)),
        ("ids=List(a/b)", "2.0.0", ("a/b",)),
        ("ids=List(a%28b%29%2Cc%3Ad%27e,b)", "2.0.0", ("a(b),c:d'e", "b")),
        ("ids=List(q?x%3D1%26y%3D%23z)", "2.0.0", ("q?x=1&y=#z",)),
        ("ids=List(dot.under_score-~!*;@$%2B%3D)", "2.0.0", ("dot.under_score-~!*;@$+=",)),
        ("ids=a&x=1&ids=b+c", "1.0.0", ("a", "b c")),
        ("", "1.0.0", ()),
    ],
)
def test_keys_are_read_as_the_client_encodes_them(query: str, version: str, keys: tuple[str, ...]) -> None:
    assert batch_keys(query, version) == keys


@pytest.mark.parametrize("query", ["", "ids=a", "ids=List(a", "ids=List(a,a)"])
def test_keys_that_are_no_list_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequest):
        batch_keys(query, "2.0.0")


def test_a_datastream_of_v1_is_updated_too(site: Site) -> None:
    assert site.client.post("/v1/datastreams", json=a_body()).status_code == 201
    document = read(site.client, "orders")
    assert document["connectorName"] == "headrace"
    document["metadata"]["owner"] = "others"
    assert batch(site.client, document).status_code == 200
    assert site.stored("orders").metadata["owner"] == "others"
    assert "system.connectorName" not in site.stored("orders").metadata
