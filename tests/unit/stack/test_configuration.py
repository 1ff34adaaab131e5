"""Configuration files of the servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.kafka import KafkaCluster, NodePorts, new_cluster_id
from stack.pinot import PinotPorts, PinotServer
from stack.server import properties_text, tail
from stack.zookeeper import Member, ZooKeeperServer


def _cluster(folder: Path, nodes: int, **properties: object) -> KafkaCluster:
    ports = [
        NodePorts(19092 + 10 * n, 19093 + 10 * n, {"SASL_PLAINTEXT": 19094 + 10 * n}) for n in range(nodes)
    ]
    return KafkaCluster("source", folder, ports, properties=properties)


def test_a_node_alone(tmp_path: Path) -> None:
    values = _cluster(tmp_path, 1).nodes[0].configuration()
    assert values["controller.quorum.voters"] == "1@127.0.0.1:19093"
    assert values["default.replication.factor"] == 1
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert values[f"{topic}.replication.factor"] == 1
    assert values["transaction.state.log.min.isr"] == 1


def test_three_nodes_know_each_other(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, 3)
    voters = "1@127.0.0.1:19093,2@127.0.0.1:19103,3@127.0.0.1:19113"
    values = [node.configuration() for node in cluster.nodes]
    assert {each["controller.quorum.voters"] for each in values} == {voters}
    assert [each["node.id"] for each in values] == [1, 2, 3]
    assert [each["broker.rack"] for each in values] == ["rack-1", "rack-2", "rack-3"]
    assert len({each["log.dirs"] for each in values}) == 3
    assert values[0]["default.replication.factor"] == 3
    assert values[0]["transaction.state.log.min.isr"] == 2
    assert cluster.address == "127.0.0.1:19092,127.0.0.1:19102,127.0.0.1:19112"
    assert cluster.address_of("SASL_PLAINTEXT") == "127.0.0.1:19094,127.0.0.1:19104,127.0.0.1:19114"
    assert [node.name for node in cluster.nodes] == ["source-1", "source-2", "source-3"]


def test_a_listener_named_like_a_protocol_speaks_it(tmp_path: Path) -> None:
    values = _cluster(tmp_path, 1).nodes[0].configuration()
    protocols = values["listener.security.protocol.map"]
    assert protocols == "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    assert "SASL_PLAINTEXT://127.0.0.1:19094" in str(values["listeners"])
    assert "CONTROLLER" not in str(values["advertised.listeners"])


def test_cluster_ids_are_never_taken_for_an_option() -> None:
    made = {new_cluster_id() for _ in range(2000)}
    assert len(made) == 2000
    assert {len(identity) for identity in made} == {22}
    assert not any(identity.startswith("-") for identity in made)


def test_given_properties_win(tmp_path: Path) -> None:
    values = _cluster(tmp_path, 1, **{"num.partitions": 6, "node.id": 9}).nodes[0].configuration()
    assert (values["num.partitions"], values["node.id"]) == (6, 9)


def test_every_listener_of_kafka_is_on_loopback(tmp_path: Path) -> None:
    node = _cluster(tmp_path, 1).nodes[0]
    places = str(node.configuration()["listeners"]).split(",")
    assert all(place.split("://")[1].startswith("127.0.0.1:") for place in places)
    assert sorted(node.ports().values()) == sorted(int(place.rpartition(":")[2]) for place in places)


def test_a_zookeeper_alone(tmp_path: Path) -> None:
    server = ZooKeeperServer("zookeeper", tmp_path, 2181, settings={"tickTime": 100})
    values = server.configuration()
    assert values["clientPortAddress"] == "127.0.0.1"
    assert values["tickTime"] == 100
    assert not any(key.startswith("server.") for key in values)
    assert server.ports() == {"clients": 2181}


def test_a_member_of_an_ensemble(tmp_path: Path) -> None:
    members = [Member(1, 2, 3), Member(4, 5, 6), Member(7, 8, 9)]
    server = ZooKeeperServer("two", tmp_path, 4, members=members)
    assert server.configuration()["server.3"] == "127.0.0.1:8:9"
    assert server.ports() == {"clients": 4, "quorum": 5, "election": 6}


def test_pinot_is_told_to_listen_on_loopback(tmp_path: Path) -> None:
    server = PinotServer("pinot", tmp_path, PinotPorts(9000, 9001, 9002, 9003, 9005))
    files = server.configuration()
    hosts = {
        str(value)
        for values in files.values()
        for key, value in values.items()
        if key.endswith((".host", "hostname", "clientPortAddress"))
    }
    assert hosts == {"127.0.0.1"}
    # These bind every address regardless of the host, so the protocols are spelled out instead.
    refused = {"controller.port", "pinot.broker.client.queryPort", "pinot.server.adminapi.port"}
    assert not any(refused & values.keys() for values in files.values())
    assert (server.controller_address, server.broker_address) == ("127.0.0.1:9000", "127.0.0.1:9001")
    assert sorted(server.ports().values()) == [9000, 9001, 9002, 9003, 9005]


def test_properties() -> None:
    assert properties_text({"a.b": 1, "c": "x=y"}) == "a.b=1\nc=x=y\n"


@pytest.mark.parametrize(("lines", "expected"), [(2, ["b", "c"]), (0, []), (9, ["a", "b", "c"])])
def test_the_end_of_a_log(tmp_path: Path, lines: int, expected: list[str]) -> None:
    log = tmp_path / "log"
    assert tail(log, lines) == []
    log.write_text("a\nb\nc\n")
    assert tail(log, lines) == expected


def test_the_end_of_a_long_log_of_long_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{number} {'x' * 300}\n" for number in range(5000)))
    assert [line.split()[0] for line in tail(log, 40)] == [str(number) for number in range(4960, 5000)]
