"""Test that /datastream and /health match Brooklin byte for byte.

The exchanges come from its Java client (protocol 2.0.0) and from plain curl, which sends no version header
(1.0.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from api.brooklin.restli import RestliConfiguration, datastream_from_restli, datastream_to_restli
from mirror.errors import InvalidRequest, Unreachable
from mirror.model.datastreams.datastream import DatastreamStatus, StartPosition
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicDescription
from tests.builders import DESTINATION, SOURCE
from tests.fakes.site import Site, a_body

VERSION = "X-RestLi-Protocol-Version"
JAVA = {VERSION: "2.0.0", "X-RestLi-Method": "create", "Content-Type": "application/json"}
CREATE = (
    '{"name":"m1","connectorName":"kafkaMirroringConnector","transportProviderName":"kafkaTransportProvider",\n'
    ' "source":{"connectionString":"kafka://source-host:9092/^(orders|users)$"},\n'
    ' "metadata":{"owner":"sre","system.reuseExistingDestination":"false"}}'
)


def terms(cluster_of_address: Callable[[str], ClusterRef]) -> RestliConfiguration:
    """Return a configuration with TLS for the source cluster only."""
    return RestliConfiguration(
        cluster_of_address, DESTINATION, {SOURCE}, {"kafkaMirroringConnector"}, {"kafkaTransportProvider"}
    )


def document(**change: Any) -> dict[str, Any]:
    """Return the definition that the CLI sends, with `change` applied; None removes a field."""
    whole = {
        "name": "m1",
        "connectorName": "kafkaMirroringConnector",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": "kafka://source-host:9092/^(t|u)$", "partitions": 4},
        "destination": {},
        "metadata": {"owner": "sre", "system.reuseExistingDestination": "false", "datastreamUUID": "u-1"},
        **change,
    }
    return {key: value for key, value in whole.items() if value is not None}


def test_create_as_the_java_client_does(client: Client, site: Site) -> None:
    answer = client.post("/datastream", content=CREATE, headers=JAVA)
    assert answer.status_code == 201
    assert answer.content == b""
    assert answer.headers["Location"] == "/datastream/m1"
    assert answer.headers["X-RestLi-Id"] == "m1"
    assert answer.headers[VERSION] == "2.0.0"
    assert "X-LinkedIn-Id" not in answer.headers
    stored = site.stored("m1")
    assert (stored.source, stored.destination) == (SOURCE, DESTINATION)
    assert stored.selection.include == "^(orders|users)$"


def test_create_as_curl_does(client: Client) -> None:
    answer = client.post("/datastream", content=CREATE, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    assert answer.headers["X-LinkedIn-Id"] == "m1"
    assert answer.headers[VERSION] == "1.0.0"
    assert "X-RestLi-Id" not in answer.headers


def test_get_returns_the_whole_definition(client: Client, site: Site) -> None:
    client.post("/datastream", content=CREATE, headers=JAVA)
    answer = client.get("/datastream/m1", headers={VERSION: "2.0.0"})
    assert answer.status_code == 200
    assert answer.json() == {
        "name": "m1",
        "connectorName": "kafkaMirroringConnector",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": "kafka://source-host:9092/^(orders|users)$"},
        "destination": {"connectionString": "kafka://destination-host:9192/*"},
        "Status": "INITIALIZING",
        "metadata": {
            "owner": "sre",
            "group.id": "m1",
            "system.IsConnectorManagedDestination": "true",
            "system.creation.ms": str(site.clock.now_ms()),
            "system.destination.KafkaBrokers": "destination-host:9192",
            "system.reuseExistingDestination": "false",
            "system.taskPrefix": "m1",
        },
    }
    site.tick()
    assert client.get("/datastream/m1").json()["Status"] == "READY"


def test_getall_returns_everything_unless_a_page_is_asked_for(client: Client) -> None:
    for number in range(13):
        source = {"connectionString": f"kafka://source-host:9092/t{number}"}
        assert client.post("/datastream", json=document(name=f"m{number:02}", source=source)).is_success
    every = client.get("/datastream").json()
    assert len(every["elements"]) == 13
    assert every["paging"] == {"start": 0, "count": 10, "links": []}
    page = client.get("/datastream", params={"start": 5, "count": 3}).json()
    assert [one["name"] for one in page["elements"]] == ["m05", "m06", "m07"]
    links = {one["rel"]: one["href"] for one in page["paging"]["links"]}
    assert links == {"prev": "/datastream?start=2&count=3", "next": "/datastream?start=8&count=3"}
    assert client.get(links["next"]).json()["elements"][0]["name"] == "m08"
    assert client.get("/datastream", params={"start": 12, "count": 5}).json()["elements"][0]["name"] == "m12"
    assert client.get("/datastream", params={"start": 90, "count": 5}).json()["elements"] == []


@pytest.mark.parametrize("parameters", [{"start": -1}, {"count": -1}, {"start": "x"}], ids=str)
def test_a_page_that_cannot_be_is_refused(client: Client, parameters: dict[str, Any]) -> None:
    assert client.get("/datastream", params=parameters).status_code == 400


def test_delete_is_answered_at_once_and_done_by_the_leader(client: Client, site: Site) -> None:
    client.post("/datastream", content=CREATE, headers=JAVA)
    answer = client.delete("/datastream/m1", headers={VERSION: "2.0.0"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert site.stored("m1").status is DatastreamStatus.DELETING
    assert client.delete("/datastream/m1").status_code == 200
    site.tick()
    assert client.get("/datastream/m1").status_code == 404


def test_a_name_is_trimmed_and_so_is_the_id(client: Client) -> None:
    answer = client.post("/datastream", json=document(name=" m1 "), headers=JAVA)
    assert answer.headers["X-RestLi-Id"] == "m1"
    assert client.get("/datastream/m1").status_code == 200


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("with space", "with%20space"),
        ("café", "caf%C3%A9"),
        ("a(b),c:d'e", "a%28b%29%2Cc%3Ad%27e"),
        ("100%", "100%25"),
        ("q?x=1&y=#z", "q%3Fx=1&y=%23z"),
        ("dot.under_score-~!*;@$+=", "dot.under_score-~!*%3B@$+="),
    ],
)
def test_names_are_encoded_in_addresses_and_plain_in_headers(client: Client, name: str, path: str) -> None:
    answer = client.post("/datastream", json=document(name=name), headers=JAVA)
    assert answer.headers["X-RestLi-Id"] == name
    assert answer.headers["Location"] == f"/datastream/{path}"
    assert client.get(answer.headers["Location"]).json()["name"] == name
    found = client.get("/datastream", params={"q": "findGroup", "datastreamName": name}).json()
    assert [one["name"] for one in found["elements"]] == [name]


@pytest.mark.parametrize(
    ("version", "marker"), [("2.0.0", "X-RestLi-Error-Response"), (None, "X-LinkedIn-Error-Response")]
)
def test_an_error_has_brooklins_envelope(client: Client, version: str | None, marker: str) -> None:
    answer = client.get("/datastream/x", headers={VERSION: version} if version else {})
    assert answer.status_code == 404
    assert answer.headers[marker] == "true"
    assert answer.headers[VERSION] == (version or "1.0.0")
    body = answer.json()
    assert set(body) == {"status", "exceptionClass", "message"}
    assert body["status"] == 404
    assert body["exceptionClass"] == "com.linkedin.restli.server.RestLiServiceException"
    assert re.fullmatch(
        r"msg=Datastream not found: x; cause=None; instance=one; id=[0-9a-f]{6};", body["message"]
    )


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"name": None}, 400, "Must specify name"),
        ({"connectorName": None}, 400, "Must specify connectorName"),
        ({"source": None}, 400, "Must specify source"),
        ({"metadata": None}, 400, "Must specify metadata"),
        ({"metadata": {"owner": ""}}, 400, "owner"),
        ({"metadata": {"other": "x"}}, 400, "owner"),
        ({"metadata": {"owner": "x", "numTasks": "5"}}, 400, "numTasks"),
        ({"metadata": {"owner": 5}}, 400, "strings"),
        ({"metadata": ["owner"]}, 400, "metadata"),
        ({"metadata": {"owner": "x", "maxTasks": "many"}}, 400, "maxTasks"),
        ({"metadata": {"owner": "x", "minTasks": "0"}}, 400, "minTasks"),
        ({"metadata": {"owner": "x", "system.auto.offset.reset": "none"}}, 400, "system.auto.offset.reset"),
        ({"source": {"connectionString": ""}}, 400, "source"),
        ({"source": {"connectionString": 5}}, 400, "source"),
        ({"source": "kafka://h:1/t"}, 400, "source"),
        ({"source": {"connectionString": "http://source-host:9092/t"}}, 400, "kafka://"),
        ({"source": {"connectionString": "kafka://source-host:9092/"}}, 400, "kafka://"),
        ({"source": {"connectionString": "kafka://source-host:9092"}}, 400, "kafka://"),
        ({"source": {"connectionString": "kafka://source-host:9092/*Event*"}}, 400, "regular expression"),
        ({"destination": {"connectionString": "nowhere"}}, 400, "kafka://"),
        ({"destination": "kafka://h:1/*"}, 400, "destination"),
        ({"destination": {"connectionString": "kafka://h:1/no-star"}}, 400, "must contain one"),
        ({"name": "a/b"}, 400, "cannot be the name of"),
        ({"name": 5}, 400, "name"),
    ],
    ids=str,
)
def test_a_request_that_brooklin_refuses_is_refused_with_its_status(
    client: Client, change: dict[str, Any], status: int, said: str
) -> None:
    answer = client.post("/datastream", json=document(**change), headers=JAVA)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["message"]
    assert client.get("/datastream").json()["elements"] == []


def test_a_name_that_exists_is_a_conflict(client: Client) -> None:
    client.post("/datastream", content=CREATE, headers=JAVA)
    answer = client.post("/datastream", content=CREATE, headers=JAVA)
    assert answer.status_code == 409
    assert answer.json()["status"] == 409


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5"])
def test_a_body_that_is_no_json_object_is_refused(client: Client, content: bytes) -> None:
    answer = client.post("/datastream", content=content, headers=JAVA)
    assert answer.status_code == 400
    assert answer.headers["X-RestLi-Error-Response"] == "true"


def test_what_an_unknown_path_gets(client: Client) -> None:
    answer = client.get("/datastream/a/b", headers={VERSION: "2.0.0"})
    assert answer.status_code == 404
    assert answer.json()["exceptionClass"]
    assert client.post("/datastream/x").status_code in {400, 405}


def test_health_lists_the_tasks_of_this_instance(client: Client, site: Site) -> None:
    client.post("/datastream", json=document())
    site.tick()
    found = client.get("/health", headers={VERSION: "2.0.0"})
    assert found.status_code == 200
    (connector,) = found.json()["connectors"]
    (task,) = connector["tasks"]
    assert task["name"] == "m1-0"
    assert task["datastreams"] == "m1"
    assert task["partitions"] == "[t-0, t-1]"
    assert (found.json()["instanceName"], found.json()["clusterName"]) == ("one", "tests")
    assert connector["connectorName"] == document()["connectorName"]
    assert (task["statusCode"], task["statusMessage"]) == ("OK", "OK")


def test_health_says_which_task_stands_still_and_of_which_connector_it_is(client: Client, site: Site) -> None:
    client.post("/datastream", json=document())
    site.create("own", destination={"cluster": "destination", "name": "own.*"})
    site.tick()
    key = next(one for one in site.follower.workers.lanes if one.group == "m1")
    site.follower.workers.pause(key, "oversize")
    site.follower.run_loop()
    connectors = client.get("/health").json()["connectors"]
    assert {one["connectorName"] for one in connectors} == {document()["connectorName"], "headrace"}
    tasks = {task["name"]: task for one in connectors for task in one["tasks"]}
    assert tasks["m1-0"]["statusCode"] == "ERROR"
    assert tasks["m1-0"]["statusMessage"] == f"{key.partition}: oversize"
    assert tasks["own-0"]["statusCode"] == "OK"


def read(value: dict[str, Any]) -> Any:
    """Parse a definition as the service does."""
    known = {"source-host:9092": SOURCE}
    return datastream_from_restli(value, terms(lambda address: known.get(address, ClusterRef(address))))


def test_metadata_that_drives_placement_and_start_is_understood_and_kept() -> None:
    metadata = {
        "owner": "x",
        "minTasks": "2",
        "maxTasks": "8",
        "partitionsPerTask": "50",
        "system.auto.offset.reset": "latest",
        "system.taskPrefix": "shared",
        "group.id": "my-group",
        "some.other": "kept",
    }
    found = read(document(metadata=metadata))
    assert found.limits == TaskLimits(2, 8, 50)
    assert found.start is StartPosition.LATEST
    assert (found.group, found.consumer_group) == ("shared", "my-group")
    assert metadata.items() <= found.metadata.items()
    since = read(document(metadata=metadata | {"system.auto.offset.reset": "2026-11-21T08:00:00Z"}))
    assert (since.start, since.start_ms) == (StartPosition.TIMESTAMP, 1_795_248_000_000)


@pytest.mark.parametrize(
    ("destination", "metadata", "template"),
    [
        ({}, {}, "*"),
        (None, {}, "*"),
        ({}, {"system.destination.destinationTopicPrefix": "dc2."}, "dc2.*"),
        ({"connectionString": "kafka://d:1/*"}, {"system.destination.destinationTopicPrefix": "p-"}, "p-*"),
        ({"connectionString": "kafka://d:1,e:2/x.*"}, {}, "x.*"),
    ],
    ids=str,
)
def test_where_topics_go(destination: dict[str, str] | None, metadata: dict[str, str], template: str) -> None:
    found = read(document(destination=destination, metadata={"owner": "x", **metadata}))
    assert found.naming.template == template
    assert found.destination == (
        "d:1" if template == "p-*" else "d:1,e:2" if "x" in template else "destination"
    )


def test_everything_after_the_last_slash_is_the_expression() -> None:
    found = read(document(source={"connectionString": "kafka://a:1,b:2/^(test|prod)\\w+$"}))
    assert found.source == "a:1,b:2"
    assert found.selection.include == "^(test|prod)\\w+$"


@pytest.mark.parametrize("role", ["source", "destination"])
def test_what_is_asked_for_through_tls_is_not_copied_openly(role: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{role} 'a:1'.*TLS.*security.protocol"):
        read(document(**{role: {"connectionString": "kafkassl://a:1/*"}}))
    assert read(document(source={"connectionString": "kafkassl://source-host:9092/t"})).source == SOURCE


def test_a_connector_that_does_not_mirror_kafka_is_refused(client: Client, site: Site) -> None:
    answer = client.post("/datastream", json=document(connectorName="no-such-connector"), headers=JAVA)
    assert answer.status_code == 400
    assert "no-such-connector" in answer.json()["message"]
    assert site.definitions.names() == ()


def test_a_transport_provider_that_does_not_write_into_kafka_is_refused(client: Client, site: Site) -> None:
    answer = client.post("/datastream", json=document(transportProviderName="another"), headers=JAVA)
    assert answer.status_code == 400
    message = answer.json()["message"]
    assert message.startswith("msg=Failed to initialize Datastream: m1")
    assert 'cause=Transport provider "another" is undefined' in message
    assert "api.transport_provider_names" in message
    assert site.definitions.names() == ()
    assert client.post("/datastream", json=document(transportProviderName=None)).status_code == 201


REFUSED = {
    "system.reuseExistingDestination": "true",
    "system.IsUserManagedDestination": "true",
    "system.IsConnectorManagedDestination": "false",
    "system.createValidationTime.ms": "1",
    "system.destination.creation.ms": "1",
    "system.destination.KafkaBrokers": "other:9092",
    "system.destination.retention.ms": "1",
    "system.destination.identityPartitioningEnabled": "false",
    "system.destination.keySchemaName": "k",
    "system.destination.payloadSchemaName": "p",
    "system.destination.encryptionRequired": "true",
    "system.source.decryptionRequired": "TRUE",
    "system.auto.offset.reset": "none",
    "system.customCheckpoint": "true",
    "system.usePassthroughCompression": "false",
    "system.enableTopicAutoCreation": "false",
    "system.uid": "u",
    "system.cdcBootstrapRequired": "true",
    "system.isBootstrapComplete": "true",
    "system.event.metadata.x": "y",
    "system.disableSlaMetric": "true",
    "skipMessageOnSerializationErrors": "true",
    "throughputViolatingTopics": "t",
    "numTasks": "3",
    "partitionFullnessThresholdPct": "80",
    "producersPerTask": "3",
    "headrace.no-such-choice": "x",
}
FOLLOWED = {
    "system.reuseExistingDestination": "false",
    "system.IsConnectorManagedDestination": "true",
    "system.destination.KafkaBrokers": "destination-host:9192",
    "system.destination.identityPartitioningEnabled": "true",
    "system.usePassthroughCompression": "true",
    "system.enableTopicAutoCreation": "true",
    "system.disableSlaMetric": "false",
    "throughputViolatingTopics": "",
    "system.start.position": "{}",
    "some.other": "kept",
}


@pytest.mark.parametrize("key", REFUSED)
def test_metadata_that_would_not_be_followed_is_refused(client: Client, site: Site, key: str) -> None:
    metadata = {"owner": "sre", key: REFUSED[key]}
    answer = client.post("/datastream", json=document(metadata=metadata))
    assert (answer.status_code, key in answer.json()["message"]) == (400, True)
    assert site.definitions.names() == ()


def test_the_page_on_compatibility_lists_refused_metadata() -> None:
    page = (Path(__file__).parents[3] / "docs" / "brooklin-compatibility.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1:3] for row in page.partition("## Metadata")[2].splitlines() if row[:3] == "| `"]
    refused = {key for keys, here in rows if "rejected" in here for key in re.findall("`([^`]+)`", keys)}
    taken = {key for keys, here in rows if "rejected" not in here for key in re.findall("`([^`]+)`", keys)}
    ours = {key.replace("metadata.x", "metadata") for key in REFUSED if not key.startswith("headrace.")}
    assert refused == ours
    assert not taken & ours


@pytest.mark.parametrize("key", ["system.start.position", "system.pausedSourcePartitions"])
def test_v1_refuses_it_too(client: Client, site: Site, key: str) -> None:
    answer = client.post("/v1/datastreams", json=a_body(metadata={"owner": "sre", key: '{"t": ["0"]}'}))
    assert answer.status_code == 400
    assert key in answer.json()["detail"]
    assert answer.json()["advice"]
    assert site.definitions.names() == ()


def test_metadata_that_asks_for_what_is_done_anyway_is_taken_and_shown(client: Client) -> None:
    assert client.post("/datastream", json=document(metadata={"owner": "x", **FOLLOWED})).status_code == 201
    assert FOLLOWED.items() <= client.get("/datastream/m1").json()["metadata"].items()


@pytest.mark.parametrize(
    ("text", "offsets"), [('{"t":{"1":12}}', {"t-0": None, "t-1": 12}), ('{"0":7}', {"t-0": 7, "t-1": None})]
)
def test_start_positions_are_followed_and_shown(
    client: Client, site: Site, text: str, offsets: dict[str, int | None]
) -> None:
    metadata = {"owner": "sre", "system.start.position": text}
    assert client.post("/datastream", json=document(metadata=metadata)).status_code == 201
    site.tick(2)
    specs = site.follower.workers.lanes
    assert {str(key.partition): one.spec.start_offset for key, one in specs.items()} == offsets
    shown = client.get("/datastream/m1").json()
    positions = json.loads(text)
    assert json.loads(shown["metadata"]["system.start.position"]) in (positions, {"*": positions})
    assert "headrace-start-positions" not in shown["metadata"]
    shown["metadata"]["note"] = "x"
    assert client.put("/datastream/m1", json=shown).status_code == 200
    again = client.get("/datastream/m1").json()["metadata"]
    assert again["system.start.position"] == shown["metadata"]["system.start.position"]
    shown["metadata"]["system.start.position"] = '{"t":{"1":13}}'
    assert client.put("/datastream/m1", json=shown).status_code == 400


@pytest.mark.parametrize("text", ["5", "x", '{"t":5}', '{"t":{"0":-1}}', '{"0":"x"}', '{"t":{"a":1}}'])
def test_start_positions_that_cannot_be_are_refused(client: Client, site: Site, text: str) -> None:
    metadata = {"owner": "sre", "system.start.position": text}
    answer = client.post("/datastream", json=document(metadata=metadata))
    assert (answer.status_code, "system.start.position" in answer.json()["message"]) == (400, True)
    assert site.definitions.names() == ()


def test_a_creation_time_of_a_client_is_not_taken(client: Client, site: Site) -> None:
    metadata = {"owner": "sre", "system.creation.ms": "5"}
    assert client.post("/datastream", json=document(metadata=metadata)).status_code == 201
    assert site.stored("m1").metadata["system.creation.ms"] == str(site.clock.now_ms())


def test_partitions_can_be_paused_from_the_beginning(client: Client, site: Site) -> None:
    metadata = {"owner": "sre", "system.pausedSourcePartitions": '{"t":["1"]}'}
    assert client.post("/datastream", json=document(metadata=metadata)).status_code == 201
    assert client.get("/datastream/m1").json()["metadata"]["system.pausedSourcePartitions"] == '{"t":["1"]}'
    site.tick()
    assert site.follower.lanes == ["t-0"]


def test_writing_back_what_was_read_adds_nothing_to_the_definition(client: Client, site: Site) -> None:
    metadata = {"owner": "sre", "system.pausedSourcePartitions": '{"t":["1"]}'}
    client.post("/datastream", json=document(metadata=metadata))
    before = site.stored("m1")
    again = client.get("/datastream/m1").json() | {"name": "m1"}
    client.delete("/datastream/m1")
    site.tick()
    assert client.post("/datastream", json=again).status_code == 201
    after = site.stored("m1")
    assert set(after.metadata) == set(before.metadata)
    assert after.pauses.keys() == before.pauses.keys()


def test_a_creation_that_is_sent_again_is_one_datastream(client: Client, site: Site) -> None:
    assert client.post("/datastream", json=document(), headers=JAVA).status_code == 201
    version = site.definitions.get(site.stored("m1").name).version
    again = client.post("/datastream", json=document(), headers=JAVA)
    assert (again.status_code, again.headers["X-RestLi-Id"]) == (201, "m1")
    assert site.definitions.get(site.stored("m1").name).version == version
    site.tick()
    client.patch("/v1/datastreams/m1", json={"metadata": {"note": "n"}}, headers={"If-Match": "*"})
    assert client.post("/datastream", json=document(), headers=JAVA).status_code == 201
    other = {"owner": "sre", "datastreamUUID": "u-2"}
    assert client.post("/datastream", json=document(metadata=other), headers=JAVA).status_code == 409
    elsewhere = {"connectionString": "kafka://source-host:9092/u"}
    assert client.post("/datastream", json=document(source=elsewhere), headers=JAVA).status_code == 409


@pytest.mark.parametrize("pattern", [r"^(?!__)\w+", r"^(?!a)(?!b|c).*", "^(?!test-).*"])
def test_a_negative_look_ahead_is_what_is_left_out_and_comes_back_as_it_was(pattern: str) -> None:
    found = read(document(source={"connectionString": f"kafka://a:1/{pattern}"}))
    assert found.selection.exclude
    written = datastream_to_restli(found, str)["source"]["connectionString"]
    again = read(document(source={"connectionString": written}))
    topics = ["a", "b", "c", "d", "orders", "test-a", "tested"]
    assert again.selection.choose(topics) == found.selection.choose(topics)
    assert found.selection.choose(topics) == tuple(one for one in topics if re.fullmatch(pattern, one))


def test_what_is_read_is_written_back() -> None:
    addresses = {SOURCE: "source-host:9092", DESTINATION: "destination-host:9192"}
    whole = document(destination={"connectionString": "kafka://destination-host:9192/x.*"})
    del whole["source"]["partitions"]
    known = {address: alias for alias, address in addresses.items()}
    found = datastream_from_restli(whole, terms(lambda address: known[address]))
    written = datastream_to_restli(found, lambda cluster: addresses[cluster])
    again = datastream_from_restli(written, terms(lambda address: known[address]))
    assert datastream_to_restli(again, lambda cluster: addresses[cluster]) == written
    assert written == whole | {"Status": "INITIALIZING", "metadata": written["metadata"]}
    assert whole["metadata"].items() <= written["metadata"].items()


def test_what_was_never_set_is_left_out() -> None:
    found = read(document(transportProviderName=None))
    assert "transportProviderName" not in datastream_to_restli(found, str)


def act(client: Client, action: str, body: dict[str, Any] | None = None, name: str = "orders") -> int:
    answer = client.post(f"/datastream/{name}", params={"action": action}, json=body or {})
    assert answer.status_code != 200 or answer.content == b""
    return answer.status_code


def test_actions_on_a_datastream_answer_nothing(client: Client, site: Site) -> None:
    site.create()
    assert act(client, "pause", {"force": False}) == 200
    assert site.stored("orders").status is DatastreamStatus.PAUSED
    assert act(client, "pause") == 405
    assert act(client, "resume", {"force": False}) == 200
    assert act(client, "stop", {"force": False}) == 200
    assert site.stored("orders").status is DatastreamStatus.STOPPED
    assert site.follower.lanes == []
    assert act(client, "stop", {"force": False}) == 200
    assert act(client, "pause", {"force": "yes"}) == 400
    assert act(client, "pause", name="nobody") == 404
    assert act(client, "dance") == 400


def two_that_share_tasks(site: Site) -> tuple[str, str]:
    site.source.topics["u"] = TopicDescription("u", 1)
    names = ("orders", "users")
    for name, topic in zip(names, ("t", "u"), strict=True):
        metadata = {"owner": "tests", "system.taskPrefix": "shared"}
        site.create(name, source={"cluster": "source", "topics": topic}, metadata=metadata)
    return names


def test_force_acts_on_all_that_share_tasks(client: Client, site: Site) -> None:
    names = two_that_share_tasks(site)

    def statuses() -> set[str]:
        return {site.stored(name).status.value for name in names}

    found = client.get("/datastream?q=findGroup&datastreamName=users").json()["elements"]
    assert [one["name"] for one in found] == list(names)
    for action, status in (("pause", "PAUSED"), ("resume", "READY"), ("stop", "STOPPED")):
        assert act(client, action, {"force": True}) == 200
        assert statuses() == {status}
    assert act(client, "resume", {"force": False}) == 200
    assert statuses() == {"READY", "STOPPED"}


def test_a_stop_that_takes_too_long_says_so_and_force_ends_it(client: Client, site: Site) -> None:
    site.create()
    site.while_asleep = lambda: site.clock.advance(10)
    answer = client.post("/datastream/orders?action=stop", json={"force": False})
    assert answer.status_code == 408
    assert site.stored("orders").status is DatastreamStatus.STOPPING
    assert site.slept == 9
    assert act(client, "stop", {"force": True}) == 200
    assert site.stored("orders").status is DatastreamStatus.STOPPED


def test_a_stop_that_somebody_undoes_says_so(client: Client, site: Site) -> None:
    site.create()

    def undo() -> None:
        stored = site.definitions.get(site.stored("orders").name)
        site.definitions.replace(stored, replace(stored.datastream, status=DatastreamStatus.READY))

    site.while_asleep = undo
    answer = client.post("/datastream/orders?action=stop", json={})
    assert answer.status_code == 405
    assert re.search("cause=[^;]*READY", answer.json()["message"])


def test_partitions_are_paused_and_resumed_as_the_java_client_does(client: Client, site: Site) -> None:
    site.create()
    assert act(client, "pauseSourcePartitions", {"sourcePartitions": {"t": "0", "u": "*"}}) == 400
    assert act(client, "pauseSourcePartitions", {"sourcePartitions": {"t": "*"}}) == 200
    assert site.stored("orders").pauses["t"].numbers == frozenset({0, 1})
    site.tick()
    assert site.follower.lanes == []
    assert act(client, "resumeSourcePartitions", {"sourcePartitions": {"t": "1"}}) == 200
    site.tick()
    assert site.follower.lanes == ["t-1"]
    site.source.failure = Unreachable("away")
    assert act(client, "pauseSourcePartitions", {"sourcePartitions": {"t": "*"}}) == 200
    paused = client.get("/datastream/orders").json()["metadata"]["system.pausedSourcePartitions"]
    assert paused == '{"t":["*"]}'
    for body in ({}, {"sourcePartitions": {"t": "x"}}, {"sourcePartitions": ["t"]}):
        assert act(client, "pauseSourcePartitions", body) == 400


def test_partitions_are_moved_as_the_java_client_does(client: Client, site: Site) -> None:
    site.create()
    assert act(client, "movePartitions", {"partitions": "t-0,t-1", "targetHost": "one"}) == 200
    assert act(client, "movePartitions", {"partitions": "t-0", "targetHost": "nobody"}) == 400
    assert act(client, "movePartitions", {"partitions": "", "targetHost": "one"}) == 400


def test_a_task_is_found_where_it_runs(client: Client, site: Site) -> None:
    site.create()
    answer = client.post("/datastream/orders?action=getTaskAssignment", json={"task": "orders-0"})
    assert (answer.status_code, answer.json()) == (200, {"value": "one"})
    assert act(client, "getTaskAssignment", {"task": "no-such"}) == 404
    assert act(client, "getTaskAssignment", {"task": "orders-0"}, name="nobody") == 404
    assert act(client, "getTaskAssignment", {"task": 5}) == 400
    assert act(client, "getTaskAssignment") == 400


@pytest.mark.parametrize("version", ["0.9.0", "2.0.1", "3.0.0", "two", ""])
def test_other_versions_of_the_protocol_are_refused(client: Client, version: str) -> None:
    answer = client.get("/datastream", headers={VERSION: version})
    assert answer.status_code == 400
    assert "is not supported!" in answer.json()["message"]
    assert (answer.headers[VERSION], answer.headers["X-RestLi-Error-Response"]) == ("2.0.0", "true")
    assert client.get("/datastream", headers={VERSION: "1.1.0"}).headers[VERSION] == "1.1.0"


@pytest.mark.parametrize("fields", ["(", "name,", ",name", "source:(", "source:(x", "name)", "a:(b:(c)"])
def test_fields_that_cannot_be_are_refused(client: Client, fields: str) -> None:
    assert client.get("/datastream", params={"fields": fields}).status_code == 400


def test_fields_of_fields(client: Client) -> None:
    client.post("/datastream", json=document())
    found = client.get("/datastream/m1?fields=name,source:(connectionString),metadata:(owner)").json()
    source = {"connectionString": "kafka://source-host:9092/^(t|u)$"}
    assert found == {"name": "m1", "source": source, "metadata": {"owner": "sre"}}
