"""Stored states of following groups: any value survives, and no bytes break a reader."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData, NewerFormat
from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.jobs.groups.lead import Lead, PendingCommit, Side
from mirror.jobs.groups.record import (
    FollowedGroup,
    FollowedPosition,
    GroupKeys,
    read_group,
    read_groups,
    write_group,
    write_round,
)
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicPartition

KEYS = GroupKeys(GroupName("orders"), DatastreamName("orders-2"))
OTHER = GroupKeys(GroupName("orders"), DatastreamName("orders-3"))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_OFFSETS = st.integers(0, 2**63 - 1)
_REASONS = st.sampled_from(FollowReason)
_PAIRS = st.builds(SyncedPosition, _OFFSETS, _OFFSETS)
_LEADS = st.none() | st.builds(
    Lead,
    st.sampled_from(Side),
    st.none() | _PAIRS,
    st.none() | st.builds(PendingCommit, st.sampled_from(Side), _PAIRS),
)
_PLACES = st.builds(TopicPartition, st.sampled_from(["t", "u.v"]), st.integers(0, 9))


@st.composite
def _positions(draw: st.DrawFn) -> dict[TopicPartition, FollowedPosition]:
    synced = st.none() | _PAIRS
    return {
        place: FollowedPosition(
            draw(_OFFSETS),
            draw(st.none() | _OFFSETS),
            TopicPartition(f"copy.{place.topic}", place.partition),
            draw(_REASONS),
            draw(st.booleans()),
            draw(synced),
            draw(_LEADS),
        )
        for place in draw(st.sets(_PLACES, max_size=5))
    }


_GROUPS = st.builds(
    FollowedGroup, _TEXT, _TEXT, st.none() | _REASONS, _TEXT, _positions(), st.integers(0, 2**53)
)


@given(_GROUPS)
def test_a_group_is_read_as_it_was_written(group: FollowedGroup) -> None:
    assert read_group(write_group(group)) == group


@given(st.lists(_GROUPS, unique_by=lambda one: one.group, max_size=4), st.integers(0, 2**53))
def test_all_groups_are_found_beside_the_round(groups: list[FollowedGroup], round_ms: int) -> None:
    records = {KEYS.of(one.group): write_group(one) for one in groups}
    found = read_groups(KEYS, {**records, KEYS.of_round: write_round(round_ms)})
    assert found.groups == {one.group: one for one in groups}
    assert (found.round_ms, found.damaged) == (round_ms, 0)
    assert KEYS.groups(records) == set(found.groups)
    assert KEYS.groups([KEYS.of_round]) == set()
    assert OTHER.groups(records) == set()
    assert read_groups(OTHER, records).groups == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
)


@given(st.binary(max_size=40) | _JSON.map(lambda one: json.dumps(one).encode()))
def test_damaged_records_are_counted_and_others_are_read(value: bytes) -> None:
    good = FollowedGroup("good")
    records = {KEYS.of("good"): write_group(good), KEYS.of("bad"): value}
    found = read_groups(KEYS, records)
    assert (found.groups, found.damaged) == ({"good": good}, 1)


@given(st.sampled_from(["group", "kind", "reason", "detail", "changed_ms", "topics", "leads"]), _JSON)
def test_a_hostile_field_is_damage(field: str, value: Any) -> None:
    document = json.loads(write_group(FollowedGroup("g")))
    document[field] = value
    with contextlib.suppress(CorruptData):
        read_group(json.dumps(document).encode())


def test_a_newer_format_is_never_overwritten() -> None:
    document = json.loads(write_group(FollowedGroup("g"))) | {"format": 2}
    try:
        read_groups(KEYS, {KEYS.of("g"): json.dumps(document).encode()})
    except NewerFormat:
        return
    raise AssertionError("read a newer format")
