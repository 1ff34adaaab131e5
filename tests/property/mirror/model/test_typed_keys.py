"""Typed fields of /v1 and metadata keys are equivalent in requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import RefusedFields
from mirror.model.capacity.knobs import PLUG_IN_NAME, PlacementKnobs, read_knobs
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.datastreams.change import FieldProblems, check_metadata, joined_metadata
from mirror.model.datastreams.consumer_groups import GroupDirection
from mirror.model.datastreams.objectives import Mode, Objective
from mirror.model.datastreams.policy import CopyPath, Guarantee, Isolation, OnLoss, OnRejection
from mirror.model.datastreams.typed_keys import (
    PLACES,
    free_metadata,
    given_values,
    text_of,
    typed_document,
    typed_values,
)

LINES = st.text(max_size=8) | st.sampled_from(["drop-header:a", " b", "a\nb", "", "\u2028"])
PERCENTS = st.sampled_from([99.0, 99.5]) | st.floats(0.001, 99.9999)
OBJECTIVES = st.builds(
    Objective, st.integers(1, 10**10), PERCENTS, PERCENTS, st.integers(10, 3_600), st.integers(1, 90)
)
KNOBS = st.builds(
    PlacementKnobs,
    st.none() | st.just("learned") | st.integers(1_024, 10**12),
    st.none() | st.integers(100, 10**12),
    st.none() | st.integers(1, 100),
    st.none() | st.floats(0, 0.9),
    st.none() | st.from_regex(PLUG_IN_NAME, fullmatch=True),
    st.none() | st.just("none"),
)
CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "owner": st.sampled_from(["a", "b"]),
    "headrace.shared-destination": st.booleans(),
    "headrace.adopt-existing": st.booleans(),
    "headrace.grow-existing": st.booleans(),
    "headrace.canary": st.booleans(),
    "headrace.guarantee": st.sampled_from([one.value for one in Guarantee]),
    "headrace.isolation": st.sampled_from([one.value for one in Isolation]),
    "headrace.on-loss": st.sampled_from([one.value for one in OnLoss]),
    "headrace.on-rejection": st.sampled_from([one.value for one in OnRejection]),
    "headrace.path": st.sampled_from([one.value for one in CopyPath]),
    "headrace.transforms": st.lists(LINES, max_size=3),
    "headrace.excluded-settings": st.lists(
        st.sampled_from(["segment.bytes", "retention.ms", "cleanup.policy"]), max_size=3, unique=True
    ).map(sorted),
    "headrace.bytes-per-second": st.none() | st.integers(1, 10**15),
    "headrace-groups": st.none() | st.sampled_from([".*", "billing|audit", "a.b"]),
    "headrace-groups-exclude": st.none() | st.sampled_from(["connect-.*", "\u00fc"]),
    "headrace-groups-interval": st.integers(1, 3_600) | st.sampled_from([0.1, 0.25, 1.5]),
    "headrace-groups-direction": st.sampled_from([one.value for one in GroupDirection]),
    "headrace-audit": st.sampled_from([one.value for one in AuditMode]),
    "headrace-audit-lateness": st.none() | st.integers(1, 604_800),
    "headrace-monitor": st.none() | st.sampled_from([one.value for one in Mode]),
    "headrace-start-positions": st.dictionaries(
        st.sampled_from(["orders", "a.b", "*"]),
        st.dictionaries(st.integers(0, 50).map(str), st.integers(0, 2**63 - 1), min_size=1, max_size=3),
        max_size=3,
    ),
    "headrace-placement": KNOBS.map(asdict),
    "headrace-objectives": st.lists(OBJECTIVES.map(asdict), max_size=3, unique_by=str),
}
GIVEN = st.fixed_dictionaries({}, optional=CHOICES)
FREE = st.dictionaries(st.sampled_from(["note", "group.id"]), st.sampled_from(["x", "y"]))


def is_possible(metadata: dict[str, str]) -> bool:
    problems = FieldProblems()
    check_metadata({"owner": "x", **metadata}, problems)
    try:
        problems.check()
    except RefusedFields:
        return False
    return True


TEXTS = GIVEN.map(
    lambda typed: {key: text_of(key, value) for key, value in typed.items() if value is not None}
).filter(is_possible)


def joined(typed: dict[str, Any], metadata: dict[str, str], present: dict[str, str]) -> dict[str, str] | None:
    """Return the joined metadata, or None if rejected."""
    problems = FieldProblems()
    found, pointers = joined_metadata(typed, metadata, present, problems)
    check_metadata({"owner": "x", **found}, problems, pointers)
    try:
        problems.check()
    except RefusedFields:
        return None
    return found


def test_every_choice_is_tried() -> None:
    assert CHOICES.keys() == PLACES.keys()


@given(GIVEN, FREE, TEXTS)
def test_what_typed_fields_say_holds_and_everything_else_has_its_default(
    typed: dict[str, Any], free: dict[str, str], present: dict[str, str]
) -> None:
    found = joined(typed, free, present)
    if found is None:
        return
    assert free_metadata(found) == free
    expected = {**typed_values({}), **typed}
    expected["headrace.transforms"] = [one.strip() for one in expected["headrace.transforms"]]
    assert typed_values(found) == expected


@given(KNOBS)
def test_choices_about_placement_are_read_as_they_are_written(knobs: PlacementKnobs) -> None:
    assert read_knobs("it", knobs.text) == knobs


@given(TEXTS, FREE)
def test_a_document_that_is_sent_back_changes_nothing(metadata: dict[str, str], free: dict[str, str]) -> None:
    present = {**metadata, **free}
    assert joined(given_values(typed_document(present)), free_metadata(present), present) == present


@given(TEXTS, GIVEN, TEXTS)
def test_two_values_of_one_choice_are_refused_and_one_said_twice_is_not(
    metadata: dict[str, str], typed: dict[str, Any], present: dict[str, str]
) -> None:
    said = typed_values(metadata)
    is_one = all(key not in metadata or said[key] == value for key, value in typed.items())
    if not is_one:
        assert joined(typed, metadata, present) is None
    again = {key: said[key] for key in metadata}
    assert joined(again, metadata, present) == metadata
