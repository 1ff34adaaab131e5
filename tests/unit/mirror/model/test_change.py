"""Test changes of a running datastream, allowed and rejected ones, field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.errors import InvalidRequest, RefusedFields
from mirror.model.datastreams.change import (
    FieldProblems,
    WantedDefinition,
    changed,
    definition_changes,
    described,
)
from mirror.model.datastreams.datastream import (
    Datastream,
    DatastreamStatus,
    Halt,
    LatencyObjective,
    PartitionPause,
    StartPosition,
)
from mirror.model.datastreams.starts import Start
from mirror.model.documents import ChangedValue, differences, merged, pointer_to
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits, joint_limits
from mirror.model.topics import TopicNaming, TopicSelection
from tests.builders import a_datastream

PRESENT = a_datastream(
    "orders",
    "orders.*",
    DatastreamStatus.PAUSED,
    {"system.creation.ms": "5", "system.connectorName": "kafka", "note": "n"},
    pauses={"orders.a": PartitionPause(None, "why", 1)},
    halt=Halt("because", 2),
)


POINTERS = {
    "name": "/name",
    "source": "/source/cluster",
    "destination": "/destination/cluster",
    "naming": "/destination/name",
    "start": "/start",
}


def wanted(**more: Any) -> WantedDefinition:
    """Return the present definition with changes."""
    fixed = {POINTERS[name]: more.pop(name) for name in POINTERS.keys() & more.keys()}
    same = WantedDefinition(PRESENT.selection, PRESENT.limits, PRESENT.objective, PRESENT.metadata, fixed)
    return replace(same, **more)


def become(**more: Any) -> Datastream:
    return changed(PRESENT, wanted(**more), FieldProblems())


def refused(**more: Any) -> dict[str, str]:
    with pytest.raises(RefusedFields) as caught:
        become(**more)
    for one in caught.value.fields:
        assert one.pointer in caught.value.message
    return dict(caught.value.fields)


def test_what_may_change_changes_and_the_state_stays() -> None:
    metadata = {**PRESENT.metadata, "owner": "others", "headrace.bytes-per-second": "1000"}
    after = become(
        selection=TopicSelection("o.*", "x"),
        limits=TaskLimits(2, 4),
        objective=LatencyObjective(500),
        metadata=metadata,
    )
    assert (after.selection.include, after.limits, after.objective) == (
        "o.*",
        TaskLimits(2, 4),
        LatencyObjective(500),
    )
    assert after.policy.bytes_per_second == 1000
    assert (after.status, after.pauses, after.halt) == (PRESENT.status, PRESENT.pauses, PRESENT.halt)
    assert [one.pointer for one in definition_changes(PRESENT, after)] == [
        "/limits/max_tasks",
        "/limits/min_tasks",
        "/objective",
        "/owner",
        "/quota/bytes_per_second",
        "/source/exclude",
        "/source/topics",
    ]


def test_what_is_said_as_it_is_changes_nothing() -> None:
    same = {
        "name": PRESENT.name,
        "source": PRESENT.source,
        "destination": PRESENT.destination,
        "naming": PRESENT.naming,
        "start": Start(PRESENT.start),
    }
    assert become(**same) == PRESENT
    group = {**PRESENT.metadata, "system.taskPrefix": "orders", "group.id": "orders"}
    assert become(metadata=group).group == PRESENT.group


def test_the_stamp_of_the_creation_need_not_be_repeated() -> None:
    metadata = {key: value for key, value in PRESENT.metadata.items() if key != "system.creation.ms"}
    assert become(metadata=metadata) == PRESENT


def test_everything_that_cannot_change_is_refused_at_once_with_its_reason() -> None:
    found = refused(
        name="other",
        source=ClusterRef("h:1"),
        destination=ClusterRef("h:2"),
        naming=TopicNaming("copy.*"),
        start=Start(StartPosition.LATEST),
        metadata={
            "system.creation.ms": "6",
            "system.taskPrefix": "shared",
            "group.id": "mine",
            "system.auto.offset.reset": "latest",
            "headrace.path": "nowhere",
            "headrace.guarantee": "never",
            "a/b~c": "\x00",
        },
    )
    assert found.keys() == {
        "/name",
        "/source/cluster",
        "/destination/cluster",
        "/destination/name",
        "/start",
        "/metadata/owner",
        "/metadata/system.creation.ms",
        "/metadata/system.taskPrefix",
        "/metadata/group.id",
        "/metadata/system.auto.offset.reset",
        "/metadata/system.connectorName",
        "/metadata/headrace.path",
        "/metadata/headrace.guarantee",
        "/metadata/a~1b~0c",
    }
    assert "create another datastream" in found["/source/cluster"]
    assert "positions" in found["/metadata/group.id"]


def test_keys_that_contradict_each_other_are_refused_together() -> None:
    contradiction = {"headrace.guarantee": "exactly-once", "headrace.isolation": "read-uncommitted"}
    found = refused(metadata={**PRESENT.metadata, **contradiction})
    assert found.keys() == {"/metadata/headrace.guarantee", "/metadata/headrace.isolation"}


def test_what_was_wrong_before_is_reported_with_the_rest() -> None:
    problems = FieldProblems()

    def fail() -> TopicSelection:
        raise InvalidRequest("no expression")

    assert problems.attempt("/source/topics", fail, PRESENT.selection) is PRESENT.selection
    with pytest.raises(RefusedFields) as caught:
        changed(PRESENT, wanted(name="other"), problems)
    assert [one.pointer for one in caught.value.fields] == ["/source/topics", "/name"]


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=str,
)
def test_a_merge_patch_does_what_the_examples_of_rfc_7386_say(target: Any, patch: Any, result: Any) -> None:
    before = repr(target)
    assert merged(target, patch) == result
    assert repr(target) == before


def test_differences_go_as_deep_as_both_have_objects() -> None:
    before, after = {"a": {"b": 1, "c/d": [1]}, "e": None}, {"a": {"b": 2, "c/d": [1]}, "e": {"f": 1}}
    assert list(differences(before, after)) == [
        ChangedValue("/a/b", 1, 2),
        ChangedValue("/e", None, {"f": 1}),
    ]
    assert pointer_to(["a~b", "c/d", 0]) == "/a~0b/c~1d/0"
    assert described(PRESENT)["source"]["topics"] == "orders.*"


def test_of_shared_limits_the_strictest_count() -> None:
    found = joint_limits([TaskLimits(1, 8, 10), TaskLimits(3), TaskLimits(2, 5, 20)])
    assert found == TaskLimits(3, 5, 10)
    assert joint_limits([TaskLimits(6), TaskLimits(1, 2)]) == TaskLimits(2, 2)
    assert joint_limits([]) == TaskLimits()
