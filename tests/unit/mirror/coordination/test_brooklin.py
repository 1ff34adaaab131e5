"""Test the import of definitions, consumer groups and pauses from a Brooklin cluster."""

from __future__ import annotations

import hashlib
import json

import pytest

from mirror.coordination.brooklin import group_ids, paused_partitions, read_brooklin
from mirror.errors import InvalidRequest, NotFound
from tests.brooklin_data import a_stream, write_tree
from tests.fakes.node_store import WRITES, FakeZooKeeper


def test_definitions_are_read_by_name_and_nothing_is_written() -> None:
    server = FakeZooKeeper()
    write_tree(server.session(), [a_stream("b", status="PAUSED"), a_stream("a")], live=["host-1", "host-0"])
    reader = server.session()
    found = read_brooklin(reader)
    assert [(one.name, one.status, one.group_id) for one in found.datastreams] == [
        ("a", "READY", "a"),
        ("b", "PAUSED", "b"),
    ]
    assert found.live == ("host-0", "host-1")
    assert found.unreadable == {}
    assert not {operation.name for operation in reader.log} & WRITES


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"name": "x"}', b'{"metadata": {"numTasks": 8}}'])
def test_one_unreadable_definition_does_not_hide_the_others(data: bytes) -> None:
    session = FakeZooKeeper().session()
    write_tree(session, [a_stream("good")])
    session.create("/dms/bad", data)
    found = read_brooklin(session)
    assert [one.name for one in found.datastreams] == ["good"]
    assert "/dms/bad" in found.unreadable["bad"]


def test_a_place_without_brooklin_is_named() -> None:
    with pytest.raises(NotFound, match="no Brooklin datastream"):
        read_brooklin(FakeZooKeeper().session())


def test_the_group_is_the_given_one_then_the_groups_then_constructed() -> None:
    metadata = {
        "given": {"group.id": "mine", "system.taskPrefix": "shared"},
        "sharing": {"system.taskPrefix": "shared"},
        "alone": {"system.taskPrefix": "alone"},
        "bare": {},
    }
    assert group_ids(metadata) == {"given": "mine", "sharing": "mine", "alone": "alone", "bare": "bare"}
    hashed = group_ids(metadata, "prod")
    assert hashed["given"] == hashed["sharing"] == "mine"
    assert hashed["alone"] == "prod." + hashlib.md5(b"alone").hexdigest()
    assert hashed["bare"] == "prod." + hashlib.md5(b"bare").hexdigest()


def test_the_hash_is_that_of_a_known_value() -> None:
    assert group_ids({"a": {}}, "c") == {"a": "c.0cc175b9c0f1b6a831c399e269772661"}


@pytest.mark.parametrize(
    ("stored", "meaning"),
    [
        (None, {}),
        ("", {}),
        ({}, {}),
        ({"T": ["0", "13"], "U": ["*"]}, {"T": frozenset({0, 13}), "U": None}),
        ({"T": [1, "*"]}, {"T": None}),
        ({"T": []}, {}),
    ],
)
def test_manual_pauses(stored: object, meaning: object) -> None:
    text = json.dumps(stored) if isinstance(stored, dict) else stored
    metadata = {} if text is None else {"system.pausedSourcePartitions": str(text)}
    assert paused_partitions(metadata) == meaning


@pytest.mark.parametrize("text", ["x", "[]", '{"T": "0"}', '{"T": 3}', '{"T": ["a"]}', '{"T": [null]}'])
def test_pauses_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="pausedSourcePartitions"):
        paused_partitions({"system.pausedSourcePartitions": text})
