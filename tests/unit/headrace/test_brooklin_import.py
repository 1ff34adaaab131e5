"""Test the import of Brooklin datastreams: the resulting definitions and the notes about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.brooklin.verdicts import ImportFinding, ImportVerdict, ListTopics, plan_import
from mirror.coordination.brooklin import BrooklinCluster, read_brooklin
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, PartitionPause, StartPosition
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from tests.brooklin_data import DESTINATION_BROKERS, SOURCE_BROKERS, a_stream, write_tree
from tests.fakes.node_store import FakeZooKeeper

NOW_MS = 1_795_000_500_000
ALIASES = {SOURCE_BROKERS: ClusterRef("source"), DESTINATION_BROKERS: ClusterRef("destination")}


def cluster_of(*streams: Mapping[str, Any]) -> BrooklinCluster:
    session = FakeZooKeeper().session()
    write_tree(session, streams)
    return read_brooklin(session)


def here(present: Mapping[str, Datastream] | None = None, **more: Any) -> ListTopics:
    values: dict[str, Any] = {
        "tls": frozenset(),
        "connectors": frozenset({"kafkaMirroringConnector"}),
        "transports": frozenset({"kafkaTransportProvider"}),
        "owner": "",
        "paused": False,
        **more,
    }
    return ListTopics(
        cluster_of_address=lambda address: ALIASES.get(address, ClusterRef(address)),
        default_destination=ClusterRef("standard"),
        present=present or {},
        now_ms=NOW_MS,
        **values,
    )


def judged(stream: Mapping[str, Any], **more: Any) -> ImportFinding:
    (finding,) = plan_import(cluster_of(stream), here(**more))
    return finding


def carried(stream: Mapping[str, Any], **more: Any) -> Datastream:
    finding = judged(stream, **more)
    assert finding.verdict is ImportVerdict.CREATE, finding
    assert finding.datastream is not None
    return finding.datastream


def test_a_plain_mirroring_datastream_arrives_whole() -> None:
    stream = a_stream(
        "orders",
        metadata={
            "group.id": "prod-orders",
            "minTasks": "2",
            "maxTasks": "9",
            "partitionsPerTask": "50",
            "system.destination.destinationTopicPrefix": "east.",
            "somebody's": "own",
            "numTasks": None,
        },
    )
    finding = judged(stream)
    one = finding.datastream
    assert one is not None
    assert finding.notes == ()
    assert finding.status is DatastreamStatus.INITIALIZING
    assert (one.source, one.destination) == ("source", "destination")
    assert one.selection.include == "^(orders|users)$"
    assert one.naming.template == "east.*"
    assert one.consumer_group == "prod-orders"
    assert one.group == "orders"
    assert one.limits == TaskLimits(2, 9, 50)
    assert one.start is StartPosition.COMMITTED
    assert one.metadata["somebody's"] == "own"
    assert one.metadata["owner"] == "sre"


@pytest.mark.parametrize(
    ("status", "paused", "begins"),
    [
        ("INITIALIZING", False, DatastreamStatus.INITIALIZING),
        ("READY", False, DatastreamStatus.INITIALIZING),
        ("READY", True, DatastreamStatus.PAUSED),
        ("PAUSED", False, DatastreamStatus.PAUSED),
        ("PAUSED", True, DatastreamStatus.PAUSED),
        ("STOPPING", False, DatastreamStatus.STOPPED),
        ("STOPPED", True, DatastreamStatus.STOPPED),
    ],
)
def test_it_begins_in_the_state_it_has_in_brooklin(
    status: str, paused: bool, begins: DatastreamStatus
) -> None:
    assert judged(a_stream("orders", status=status), paused=paused).status is begins


def test_what_brooklin_deletes_is_left_out() -> None:
    assert judged(a_stream("orders", status="DELETING")).verdict is ImportVerdict.SKIP


def test_manual_pauses_come_along_with_a_reason() -> None:
    pauses = json.dumps({"orders": ["0", "3"], "users": ["*"]})
    one = carried(a_stream("orders", metadata={"system.pausedSourcePartitions": pauses}))
    assert one.pauses == {
        "orders": PartitionPause(frozenset({0, 3}), "paused in Brooklin", NOW_MS),
        "users": PartitionPause(None, "paused in Brooklin", NOW_MS),
    }
    assert "system.pausedSourcePartitions" not in one.metadata


@pytest.mark.parametrize(
    ("reset", "start"),
    [
        (None, StartPosition.COMMITTED),
        ("earliest", StartPosition.COMMITTED),
        ("none", StartPosition.COMMITTED),
        ("latest", StartPosition.COMMITTED_OR_LATEST),
    ],
)
def test_it_begins_at_the_committed_offsets(reset: str | None, start: StartPosition) -> None:
    finding = judged(a_stream("orders", metadata={"system.auto.offset.reset": reset}))
    assert finding.datastream is not None
    assert finding.datastream.start is start
    assert any("committed offset" in note for note in finding.notes) == (reset == "none")


@pytest.mark.parametrize(
    ("metadata", "note"),
    [
        ({"system.destination.identityPartitioningEnabled": None}, "partition numbers"),
        ({"system.destination.identityPartitioningEnabled": "false"}, "partition numbers"),
        ({"system.start.position": '{"0": 7}'}, "system.start.position"),
        ({"producersPerTask": "3"}, "producersPerTask"),
        ({"throughputViolatingTopics": "a,b"}, "throughputViolatingTopics"),
        ({"system.event.metadata.x": "y"}, "system.event.metadata"),
    ],
)
def test_what_cannot_be_carried_is_said(metadata: dict[str, str | None], note: str) -> None:
    finding = judged(a_stream("orders", metadata=metadata))
    assert finding.verdict is ImportVerdict.CREATE
    assert len(finding.notes) == 1
    assert note in finding.notes[0]


def test_topics_of_kafka_itself_are_left_out_and_that_is_said() -> None:
    assert "two underscores" in judged(a_stream("all", topics=".*")).notes[0]
    assert judged(a_stream("all", topics=r"^(?!__)\w+")).notes == ()


def test_serialisers_are_said_to_do_nothing() -> None:
    destination = {"connectionString": f"kafka://{DESTINATION_BROKERS}/*", "payloadSerDe": "avro"}
    assert "serialisers" in judged(a_stream("orders") | {"destination": destination}).notes[0]


def test_the_destination_may_be_the_brokers_that_brooklin_noted_or_ours() -> None:
    assert carried(a_stream("orders") | {"destination": {}}).destination == "destination"
    finding = judged(
        a_stream("orders", metadata={"system.destination.KafkaBrokers": None}) | {"destination": {}}
    )
    assert finding.datastream is not None
    assert finding.datastream.destination == "standard"
    assert "destination" in finding.notes[0]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (a_stream("o", topics=r"\p{Alpha}+"), "invalid character class range"),
        (a_stream("o", topics="a++b"), "bad repetition operator"),
        (a_stream("o", topics="(?=a).*"), "look-around"),
        (a_stream("o", topics="[a-z&&[^b]]+"), "RE2"),
        (a_stream("o", topics="[a-z&&b]+"), "intersection"),
        (a_stream("o", topics="[a[bc]]+"), "nested"),
        (a_stream("o", topics=r"\\[^a[bc]]+"), "nested"),
        (
            a_stream("o") | {"source": {"connectionString": "oracle://h:1/t"}},
            "is not a valid kafka connection string",
        ),
        (a_stream("o") | {"transportProviderName": "kinesis"}, 'Transport provider "kinesis" is undefined'),
        (a_stream("o") | {"source": {}}, "Must specify source"),
        (a_stream("o") | {"destination": {"connectionString": "kafka://h:1/plain"}}, "must contain one *"),
        (a_stream("o", metadata={"owner": None}), "--owner"),
        (a_stream("o", metadata={"maxTasks": "0"}), "maxTasks"),
        (a_stream("o", metadata={"system.pausedSourcePartitions": "?"}), "pausedSourcePartitions"),
        (a_stream("o", metadata={"system.ttl.ms": "1000"}), "time to live"),
        (a_stream("o", status="CONFUSED"), "status 'CONFUSED'"),
        (a_stream("o") | {"source": {"connectionString": f"kafkassl://{SOURCE_BROKERS}/t"}}, "TLS"),
    ],
)
def test_what_cannot_be_created_says_why(stream: dict[str, Any], why: str) -> None:
    finding = judged(stream)
    assert finding.verdict is ImportVerdict.IMPOSSIBLE
    assert finding.is_trouble
    assert why in finding.notes[0]


@pytest.mark.parametrize("topics", ["(?<name>a+)", r"[a-z][0-9]", r"a\[b[c]", r"[a\[b]c", r"[]a]b[c]"])
def test_expressions_that_mean_the_same_are_carried(topics: str) -> None:
    assert carried(a_stream("o", topics=topics)).selection.include == topics


def test_a_negative_look_ahead_becomes_what_is_left_out() -> None:
    selection = carried(a_stream("o", topics=r"^(?!__)[\w.-]+$")).selection
    assert (selection.include, selection.exclude) == (r"[\w.-]+$", "(?:__).*")


def test_a_tls_source_is_carried_when_its_cluster_is_configured_so() -> None:
    stream = a_stream("o") | {"source": {"connectionString": f"kafkassl://{SOURCE_BROKERS}/t"}}
    assert carried(stream, tls=frozenset({ClusterRef("source")})).source == "source"


def test_an_owner_can_be_given_for_those_that_have_none() -> None:
    assert carried(a_stream("o", metadata={"owner": None}), owner="me").metadata["owner"] == "me"
    assert carried(a_stream("o"), owner="me").metadata["owner"] == "sre"


def test_what_is_here_already_is_left_alone_and_another_of_the_name_too() -> None:
    one = carried(a_stream("orders"))
    assert judged(a_stream("orders"), present={"orders": one}).verdict is ImportVerdict.PRESENT
    changed = judged(a_stream("orders", topics="other"), present={"orders": one})
    assert changed.verdict is ImportVerdict.CONFLICT
    assert changed.is_trouble


def test_datastreams_that_share_tasks_must_go_the_same_way() -> None:
    shared = {"system.taskPrefix": "shared"}
    streams = [
        a_stream("a", metadata=shared),
        a_stream("b", metadata=shared),
        a_stream("c", metadata=shared | {"system.destination.destinationTopicPrefix": "x."}),
    ]
    findings = plan_import(cluster_of(*streams), here())
    assert [one.verdict for one in findings] == [
        ImportVerdict.CREATE,
        ImportVerdict.CREATE,
        ImportVerdict.IMPOSSIBLE,
    ]
    assert "shares tasks with a" in findings[2].notes[0]
    groups = {one.datastream.consumer_group for one in findings if one.datastream}
    assert groups == {"a", "b", "c"}


def test_an_unreadable_definition_is_reported_with_the_others() -> None:
    session = FakeZooKeeper().session()
    write_tree(session, [a_stream("good")])
    session.create("/dms/bad", b"{")
    verdicts = {one.name: one.verdict for one in plan_import(read_brooklin(session), here())}
    assert verdicts == {"bad": ImportVerdict.IMPOSSIBLE, "good": ImportVerdict.CREATE}
