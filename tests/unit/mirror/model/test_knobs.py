"""Test the placement options of a datastream."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import InvalidRequest
from mirror.model.capacity.capacity import CapacityTerms
from mirror.model.capacity.knobs import (
    PlacementKnobs,
    joint_headroom,
    joint_provider,
    joint_strategy,
    joint_terms,
    knobs_of_document,
    read_knobs,
)

NO_KNOBS = PlacementKnobs()
TERMS = CapacityTerms(None, 1_000_000, None, 70)


def test_it_is_read_as_it_is_written() -> None:
    for one in (NO_KNOBS, PlacementKnobs("learned"), PlacementKnobs(2048, 500, 80, 0.25, "one-each", "none")):
        assert read_knobs("it", one.text) == one
    assert read_knobs("it", " headroom 0,capacity  4096 ") == PlacementKnobs(4096, scale_in_headroom=0.0)


@pytest.mark.parametrize(
    "text",
    [
        "capacity",
        "capacity 5",
        "capacity 99999999999999",
        "capacity -4096",
        "capacity 4096, capacity 4096",
        "messages learned",
        "messages 1",
        "utilisation 0",
        "utilisation 101",
        "utilisation 1.5",
        "headroom nan",
        "headroom inf",
        "headroom 0.95",
        "headroom much",
        "room 5",
        "provider",
        "provider a b",
        "provider -a",
        "provider none none",
        "strategy",
        "strategy a b",
        "strategy -a",
        "strategy größe",
        "strategy a\nb",
        "strategy " + "x" * 64,
        "strategy a, strategy a",
        ",",
        "x" * 5_000,
    ],
)
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_knobs("it", text)


def test_a_document_has_known_names() -> None:
    assert knobs_of_document({"utilisation_percent": 5}) == PlacementKnobs(utilisation_percent=5)
    with pytest.raises(InvalidRequest, match="room"):
        knobs_of_document({"room": 5})


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "x" * 64,
        "x" * 300,
        "a\nb",
        "a\n",
        "größe",
        "a b",
        "a,b",
        "../a",
        "7",
        "\ud800",
        5,
        [],
    ],
)
def test_a_strategy_has_a_name_as_plug_ins_have(name: Any) -> None:
    with pytest.raises(InvalidRequest):
        PlacementKnobs(strategy=name)


def test_what_is_not_chosen_is_as_the_settings_say() -> None:
    assert joint_terms(TERMS, [NO_KNOBS]) == TERMS
    assert joint_headroom([NO_KNOBS]) is None
    assert joint_strategy([NO_KNOBS]) is None


def test_the_strictest_choice_counts_where_tasks_are_shared() -> None:
    some = [
        PlacementKnobs("learned", 900, 80, 0.1),
        PlacementKnobs(5_000, 700, 60, 0.3),
        PlacementKnobs(6_000, strategy="simple"),
    ]
    assert joint_terms(TERMS, some) == CapacityTerms(5_000, 1_000_000, 700, 60, of_datastream=True)
    assert joint_headroom(some) == 0.3


def test_who_chooses_no_strategy_leaves_it_to_the_others() -> None:
    some = [NO_KNOBS, PlacementKnobs(strategy="b"), PlacementKnobs(strategy="a"), NO_KNOBS]
    assert joint_strategy(some) == "b"


def test_tasks_are_planned_by_count_where_one_of_those_that_share_them_says_so() -> None:
    none, other = PlacementKnobs(load_provider="none"), PlacementKnobs(load_provider="pinot")
    assert joint_provider([NO_KNOBS, other, none]) == "none"


def test_who_chooses_no_load_provider_leaves_it_to_the_others() -> None:
    assert joint_provider([NO_KNOBS, PlacementKnobs(load_provider="pinot"), NO_KNOBS]) == "pinot"
    assert joint_provider([NO_KNOBS, PlacementKnobs(5_000)]) is None


def test_a_datastream_may_ask_for_what_is_learned_where_the_settings_have_a_number() -> None:
    constant = CapacityTerms(5_000, 1_000_000, None, 70)
    found = joint_terms(constant, [PlacementKnobs("learned")])
    assert (found.bytes_per_second, found.of_datastream) == (None, False)
