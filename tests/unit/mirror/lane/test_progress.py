"""Test stored progress: records of other writers, damaged ones, and newer formats."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData, InvalidRequest, NewerFormat
from mirror.lane.parts.pause import Pause, ProbeRule, pause_again
from mirror.lane.progress import main_key
from mirror.lane.progress_decoder import is_outdated, read_progress, written_at
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition

KEY = LaneKey(GroupName("g"), TopicPartition("orders", 3))


GOOD: dict[str, object] = {
    "next_offset": 0,
    "ledger": {"start": 0, "counts": {}},
    "map": {"first": 0, "sealed": 0, "runs": []},
    "source_id": "",
    "epoch": -1,
    "target_id": "",
    "clean": True,
}
PAUSE: dict[str, object] = {"reason": "full", "since_ms": 5, "attempt": 2}


def stored(**fields: object) -> dict[bytes, bytes]:
    return {main_key(KEY): json.dumps(fields).encode()}


def test_keys_name_group_topic_and_partition() -> None:
    assert main_key(KEY) == b"g/orders/3"


def test_nothing_stored_is_no_progress() -> None:
    assert read_progress(KEY, {}) is None


def test_a_bare_checkpoint_is_enough_to_go_on() -> None:
    progress = read_progress(KEY, stored(next_offset=17, written_ms=1))
    assert progress is not None
    assert (progress.next_offset, progress.ledger.start, progress.clean) == (17, 17, False)
    assert len(progress.offset_map) == 0


def test_a_later_format_is_refused_with_advice() -> None:
    with pytest.raises(NewerFormat, match="newer version"):
        read_progress(KEY, stored(format=9, next_offset=1))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"next_offset": "x"},
        {"next_offset": -1},
        {"next_offset": 2**63},
        {"next_offset": True},
        {"next_offset": 5, "written_ms": "now"},
        GOOD | {"epoch": 10**30},
        GOOD | {"source_id": "00"},
        GOOD | {"source_id": 3},
        GOOD | {"target_next": "x"},
        GOOD | {"owned_from": -1},
        GOOD | {"life": -1},
        GOOD | {"gaps": 3},
        GOOD | {"owner": "x"},
        GOOD | {"owner": [1]},
        GOOD | {"owner": "12"},
        GOOD | {"owner": [1, "2"]},
        GOOD | {"pause": 3},
        GOOD | {"pause": {"reason": "full"}},
        GOOD | {"pause": PAUSE | {"since_ms": "now"}},
        GOOD | {"pause": PAUSE | {"attempt": 1.5}},
        GOOD | {"pause": PAUSE | {"offset": "7"}},
        GOOD | {"pause": PAUSE | {"offset": [7]}},
        GOOD | {"pause": PAUSE | {"offset": True}},
        GOOD | {"pause": PAUSE | {"offset": 2**63}},
        GOOD | {"ledger": {"start": 0, "counts": {"mirrored": -5, "filtered": 5}}},
        GOOD | {"ledger": {"start": -5, "counts": {"mirrored": 5}}},
        GOOD | {"ledger": {"start": "0", "counts": {}}},
        GOOD | {"ledger": {"start": 0, "counts": {}, "left_out": [[0, 1, "1"]]}},
        GOOD | {"map": {"first": 0, "sealed": 0, "runs": [[2**70, 0, 1]]}},
        GOOD | {"map": {"first": 0, "sealed": 0, "runs": [[1]]}},
        {"next_offset": 5, "ledger": {"start": 0, "counts": {"mirrored": 4}}, "map": {}},
        {"next_offset": 5, "ledger": {"start": 0, "counts": {"unreported": 5}}},
        {
            "next_offset": 5,
            "ledger": {"start": 5, "counts": {}},
            "map": {"first": 0, "sealed": 256, "runs": []},
        },
    ],
)
def test_damage_is_found(fields: dict[str, object]) -> None:
    with pytest.raises(CorruptData, match=r"progress|ledger"):
        read_progress(KEY, stored(**fields))


def test_probes_come_slower_and_slower_up_to_a_limit() -> None:
    rule = ProbeRule(first_seconds=1, longest_seconds=10)
    pause: Pause | None = None
    waits = []
    for now in (0, 1_000, 3_000, 7_000, 15_000, 25_000):
        pause = pause_again(pause, "full", now, rule)
        waits.append(pause.delay_ms)
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]
    assert pause is not None
    assert (pause.since_ms, pause.attempt) == (0, 6)


def test_failures_of_a_cluster_that_is_away_make_no_later_wait_longer() -> None:
    soon, rule = ProbeRule(0.5, 0.5), ProbeRule(1, 60)
    pause = None
    for now in range(0, 30_000, 500):
        pause = pause_again(pause, "away", now, soon, counts=False)
        assert pause.delay_ms == 500
    pause = pause_again(pause, "the broker that is starting knows no such topic", 30_000, rule)
    assert pause.delay_ms == 1_000


def test_the_end_of_an_outage_wakes_what_failed_during_it() -> None:
    rule = ProbeRule(60, 60)
    assert pause_again(None, "unknown topic", 5_000, rule).is_woken(since_ms=5_000)
    assert not pause_again(None, "record too large", 4_999, rule).is_woken(since_ms=5_000)
    assert not pause_again(None, "fenced", 6_000, rule, lasting=True).is_woken(since_ms=5_000)
    again = pause_again(pause_again(None, "too large", 1_000, rule), "unknown topic", 6_000, rule)
    assert again.is_woken(since_ms=5_000), "the latest failure counts"


def test_a_restart_probes_at_once_and_keeps_the_count() -> None:
    pause = pause_again(pause_again(None, "full", 0, ProbeRule()), "full", 1_000, ProbeRule())
    pause = replace(pause, offset=7)
    again = Pause.from_json(pause.to_json())
    assert again.text == pause.text == "full (source offset 7)"
    assert again.delay_ms == 0
    assert (again.reason, again.since_ms, again.attempt) == ("full", 0, 2)


@pytest.mark.parametrize("offset", ["7", [7], {}, 7.0, True, -2, 2**63])
def test_a_pause_whose_offset_is_no_offset_is_refused(offset: object) -> None:
    with pytest.raises(InvalidRequest, match="offset"):
        Pause.from_json(PAUSE | {"offset": offset})


@pytest.mark.parametrize("offset", [{}, {"offset": None}, {"offset": 7}, {"offset": -1}])
def test_a_stored_pause_is_read_with_its_offset(offset: dict[str, object]) -> None:
    progress = read_progress(KEY, stored(**GOOD, pause=PAUSE | offset))
    assert progress is not None
    assert progress.pause is not None
    assert Pause.from_json(progress.pause).offset == offset.get("offset")


@pytest.mark.parametrize("value", [b'{"written_ms":Infinity,"next_offset":3}', b'{"next_offset":-Infinity}'])
def test_a_record_without_a_write_time_is_the_oldest(value: bytes) -> None:
    assert written_at(value) == (-1, -1)


def owned(*owner: object) -> bytes:
    return json.dumps(GOOD | {"owner": list(owner)}).encode()


@pytest.mark.parametrize(
    ("before", "after", "outdated"),
    [
        (owned(7, 3), owned(7, 2), True),
        (owned(7, 3), owned(), True),
        (owned(7, 3), owned(7, 3), False),
        (owned(7, 3), owned(7, 4), False),
        (owned(7, 3), owned(8, 0), False),
        (owned(), owned(), False),
        (owned(), owned(7, 0), False),
        (owned(7, 3), json.dumps(GOOD).encode(), False),
        (json.dumps(GOOD).encode(), owned(), False),
        (owned(7, 3), b"damaged", False),
        (owned(7, 3), owned("x", 1), False),
        (b"[" * 100_000, owned(7, 3), False),
    ],
)
def test_what_a_former_owner_stores_late_does_not_count(before: bytes, after: bytes, outdated: bool) -> None:
    assert is_outdated(before, after) is outdated


TEXT = st.text(alphabet='"\\:[]owner1,2', max_size=24)
OWNERS = st.lists(st.integers(0, 3), max_size=3) | st.none() | TEXT
DOCUMENTS = st.fixed_dictionaries(
    {"pause": TEXT | st.fixed_dictionaries({"owner": OWNERS})}, optional={"owner": OWNERS, "life": TEXT}
)


@given(DOCUMENTS, DOCUMENTS)
def test_records_are_compared_in_the_same_way_in_any_notation(
    before: dict[str, object], after: dict[str, object]
) -> None:
    """Compact records of the same owner are not decoded."""
    compact = [json.dumps(each, separators=(",", ":")).encode() for each in (before, after)]
    assert is_outdated(*compact) is is_outdated(*(json.dumps(each).encode() for each in (before, after)))
