"""/datastream and /health, byte for byte as Brooklin's clients know them.

The exchanges are those of its Java client (protocol 2.0.0) and of plain curl (no header, which is
1.0.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client

from api.restli import Terms, datastream_from_restli, datastream_to_restli
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import DatastreamStatus, StartPosition
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from tests.builders import DESTINATION, SOURCE
from tests.fakes.site import Site, a_body

VERSION = "X-RestLi-Protocol-Version"
JAVA = {VERSION: "2.0.0", "X-RestLi-Method": "create", "Content-Type": "application/json"}
CREATE = (
    '{"name":"m1","connectorName":"kafkaMirroringConnector","transportProviderName":"kafkaTransportProvider",\n'
    ' "source":{"connectionString":"kafka://source-host:9092/^(orders|users)$"},\n'
    ' "metadata":{"owner":"sre","system.reuseExistingDestination":"false"}}'
)


def terms(cluster_of_address: Callable[[str], ClusterRef]) -> Terms:
    """The source cluster is reached through TLS, the destination is not."""
    return Terms(cluster_of_address, DESTINATION, {SOURCE}, {"kafkaMirroringConnector"})


def document(**change: Any) -> dict[str, Any]:
    """What the CLI sends, changed; None removes a field."""
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
            "system.creation.ms": str(site.clock.now_ms()),
            "system.reuseExistingDestination": "false",
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
    assert page["paging"] == {"start": 5, "count": 3, "links": []}
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


def test_names_are_encoded_in_headers(client: Client) -> None:
    answer = client.post("/datastream", json=document(name="ä b/c".replace("/", "?")), headers=JAVA)
    assert answer.headers["X-RestLi-Id"] == "%C3%A4%20b%3Fc"
    assert client.get(answer.headers["Location"]).json()["name"] == "ä b?c"


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
        r"msg=there is no datastream x; cause=None; instance=one; id=[0-9a-f]{6};", body["message"]
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
        ({"name": "a/b"}, 400, "cannot name"),
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
    site.follower.workers.pause(key, "the record is too large")
    site.follower.turn()
    connectors = client.get("/health").json()["connectors"]
    assert {one["connectorName"] for one in connectors} == {document()["connectorName"], "headrace"}
    tasks = {task["name"]: task for one in connectors for task in one["tasks"]}
    assert tasks["m1-0"]["statusCode"] == "ERROR"
    assert tasks["m1-0"]["statusMessage"] == f"{key.partition}: the record is too large"
    assert tasks["own-0"]["statusCode"] == "OK"


def read(value: dict[str, Any]) -> Any:
    """As the service does."""
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
    with pytest.raises(InvalidRequest, match=f"its {role} 'a:1' is reached through TLS.*security.protocol"):
        read(document(**{role: {"connectionString": "kafkassl://a:1/*"}}))
    assert read(document(source={"connectionString": "kafkassl://source-host:9092/t"})).source == SOURCE


def test_a_connector_that_does_not_mirror_kafka_is_refused(client: Client, site: Site) -> None:
    answer = client.post("/datastream", json=document(connectorName="no-such-connector"), headers=JAVA)
    assert answer.status_code == 400
    assert "Invalid connector: 'no-such-connector'" in answer.json()["message"]
    assert site.definitions.names() == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("system.start.position", '{"0": 12}'),
        ("system.pausedSourcePartitions", '{"t": ["0"]}'),
        ("system.destination.encryptionRequired", "true"),
        ("system.source.decryptionRequired", "TRUE"),
    ],
)
def test_metadata_that_would_not_be_followed_is_refused(
    client: Client, site: Site, key: str, value: str
) -> None:
    metadata = {"owner": "sre", key: value}
    assert client.post("/datastream", json=document(metadata=metadata)).status_code == 400
    answer = client.post("/v1/datastreams", json=a_body(metadata=metadata))
    assert answer.status_code == 400
    assert key in answer.json()["detail"]
    assert answer.json()["advice"]
    assert site.definitions.names() == ()
    nothing = {"owner": "sre", "system.start.position": "{}", "system.source.decryptionRequired": "false"}
    assert client.post("/datastream", json=document(metadata=nothing)).status_code == 201


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
    assert written == whole | {"Status": "INITIALIZING"}


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
    assert site.stored("orders").status is DatastreamStatus.STOPPING
    assert act(client, "pause", name="nobody") == 404
    assert act(client, "dance") == 400


def test_partitions_are_paused_and_resumed_as_the_java_client_does(client: Client, site: Site) -> None:
    site.create()
    assert act(client, "pauseSourcePartitions", {"sourcePartitions": {"t": "0,1", "u": "*"}}) == 200
    assert site.stored("orders").pauses["t"].numbers == frozenset({0, 1})
    assert site.stored("orders").pauses["u"].numbers is None
    site.tick()
    assert site.follower.lanes == []
    assert act(client, "resumeSourcePartitions", {"sourcePartitions": {"t": "1"}}) == 200
    site.tick()
    assert site.follower.lanes == ["t-1"]
    for body in ({}, {"sourcePartitions": {"t": "x"}}, {"sourcePartitions": ["t"]}):
        assert act(client, "pauseSourcePartitions", body) == 400


def test_partitions_are_moved_as_the_java_client_does(client: Client, site: Site) -> None:
    site.create()
    assert act(client, "movePartitions", {"partitions": "t-0,t-1", "targetHost": "one"}) == 200
    assert act(client, "movePartitions", {"partitions": "t-0", "targetHost": "nobody"}) == 400
    assert act(client, "movePartitions", {"partitions": "", "targetHost": "one"}) == 400
