"""Test the rejection of invalid definitions and limits."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicNaming
from tests.builders import SOURCE, a_datastream


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "x" * 201, "\ud800", "a\nb", "\x00", ".", ".."])
def test_a_name_must_fit_into_a_path_and_a_group_id(name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the name of"):
        a_datastream(name)


@pytest.mark.parametrize("name", ["a", "a b", "ä", "a?b=c&d", "x" * 200, "%2F"])
def test_any_other_name_is_fine(name: str) -> None:
    assert a_datastream(name).name == name


def test_topics_are_never_copied_onto_themselves() -> None:
    with pytest.raises(InvalidRequest, match="onto themselves"):
        a_datastream(destination=SOURCE)
    assert a_datastream(destination=SOURCE, naming=TopicNaming("copy.*"))


def test_group_and_consumer_group_are_the_name_unless_set() -> None:
    plain = a_datastream("a")
    assert (plain.group, plain.consumer_group) == ("a", "a")
    metadata = {"system.taskPrefix": "g", "group.id": "c"}
    chosen = a_datastream("a", metadata=metadata)
    assert (chosen.group, chosen.consumer_group) == ("g", "c")
    assert a_datastream("a", metadata={"system.taskPrefix": "", "group.id": ""}).group == "a"


def test_only_ready_is_mirrored() -> None:
    assert [one for one in DatastreamStatus if one.is_mirrored] == [DatastreamStatus.READY]


@pytest.mark.parametrize("values", [(0,), (-1,), (100, 0.0), (100, 100.0), (100, -5.0)])
def test_an_objective_is_a_time_and_a_share(values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest):
        LatencyObjective(*values)


@pytest.mark.parametrize("values", [(0,), (2, 1), (1, None, 0), (-1, 5)])
def test_limits_must_leave_room(values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest):
        TaskLimits(*values)


@pytest.mark.parametrize("values", [(0,), (-5,), (1, 0), (1, None, 0), (1, None, 101)])
def test_a_capacity_is_above_nothing(values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest):
        TaskCapacity(*values)


def test_usable_capacity_is_rounded_down() -> None:
    capacity = TaskCapacity(999, 99, utilisation_percent=33)
    assert capacity.usable_bytes_per_second == 329
    assert capacity.usable_messages_per_second == 32
    assert TaskCapacity(10).usable_messages_per_second is None
