"""Test pauses of partitions and of whole datastreams, and their expiry."""

from __future__ import annotations

import pytest

from mirror.model.datastreams.datastream import DatastreamStatus, Halt, PartitionPause
from mirror.model.datastreams.pauses import EndedPauses, moment_text, paused, without_ended
from mirror.model.movement.exemptions import WHOLE, with_resumption
from tests.builders import a_datastream

_S = DatastreamStatus
ONE, TWO = frozenset({1}), frozenset({2})


@pytest.mark.parametrize(
    ("numbers", "before_ms", "asked_ms", "until_ms"),
    [
        (ONE, 900, 500, 500),
        (ONE, None, 500, 500),
        (ONE, 500, None, None),
        (None, 900, 500, 500),
        (TWO, 900, 500, 900),
        (TWO, 500, 900, 900),
        (TWO, None, 500, None),
        (TWO, 500, None, None),
    ],
)
def test_who_names_all_that_is_paused_of_a_topic_changes_the_end_else_the_later_one_counts(
    numbers: frozenset[int] | None, before_ms: int | None, asked_ms: int | None, until_ms: int | None
) -> None:
    before = {"t": PartitionPause(ONE, "one", 1, until_ms=before_ms)}
    found = paused(before, {"t": numbers}, Halt("two", 2, "me", asked_ms))["t"]
    assert (found.until_ms, found.reason, found.requested_by) == (until_ms, "two", "me")


def test_a_partition_of_a_topic_that_is_paused_whole_does_not_shorten_that() -> None:
    before = {"t": PartitionPause(None, "all", 1)}
    assert paused(before, {"t": ONE}, Halt("one", 2, "", 5))["t"] == PartitionPause(None, "one", 2)


def test_a_pause_ends_at_its_moment_and_not_before() -> None:
    halt = Halt("tests", 1, "me", until_ms=1_700_000_000_000)
    one = a_datastream(status=_S.PAUSED, halt=halt)
    assert without_ended(one, 1_699_999_999_999) is None
    sentence = "resumed the datastream (paused until 2023-11-14T22:13:20Z by me: tests)"
    resumptions = with_resumption({}, WHOLE, None, 1, 1_700_000_000_000)
    ready = a_datastream(status=_S.READY, resumptions=resumptions)
    assert without_ended(one, 1_700_000_000_000) == EndedPauses(ready, sentence)


def test_only_a_pause_ends_by_itself() -> None:
    halt = Halt("", 1, "", until_ms=5)
    for status in set(_S) - {_S.PAUSED}:
        assert without_ended(a_datastream(status=status, halt=halt), 9) is None


def test_pauses_of_partitions_end_in_every_state_but_in_a_deletion() -> None:
    pauses = {
        "a": PartitionPause(ONE, "", 1, until_ms=5),
        "b": PartitionPause(None, "bad", 1, until_ms=6),
        "c": PartitionPause(ONE, "", 1, until_ms=7),
        "d": PartitionPause(ONE, "", 1),
    }
    for status in set(_S) - {_S.DELETING}:
        found = without_ended(a_datastream(status=status, pauses=pauses), 6)
        assert found is not None
        assert found.datastream.status is status
        assert found.datastream.pauses.keys() == {"c", "d"}
        assert found.sentence.startswith("resumed a:1 (paused until 1970-01-01T00:00:00Z), b:* (")
    assert without_ended(a_datastream(status=_S.DELETING, pauses=pauses), 9) is None


def test_many_topics_make_a_sentence_that_can_be_read() -> None:
    pauses = {f"t{number}": PartitionPause(ONE, "", 1, until_ms=5) for number in range(200)}
    found = without_ended(a_datastream(pauses=pauses), 5)
    assert found is not None
    assert found.sentence.endswith(" and 190 more")


def test_a_moment_beyond_the_calendar_is_still_a_text() -> None:
    assert moment_text(10**15) == "1000000000000000 ms"
