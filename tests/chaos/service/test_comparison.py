"""Test that the comparison finds every violation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.service.comparison import Findings, compare, repeated

LIVES = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(
    lambda sizes: [[f"{life}/{number}" for number in range(size)] for life, size in enumerate(sizes)]
)
FULL = LIVES.filter(lambda lives: len(lives[-1]) >= 2)


def _copy(lives: list[list[str]]) -> list[str]:
    return [record for life in lives for record in life]


@given(LIVES)
def test_a_perfect_copy_has_no_findings(lives: list[list[str]]) -> None:
    count = len(_copy(lives))
    assert compare(lives, _copy(lives)) == Findings(written=count, arrived=count)


@given(FULL, st.data())
def test_every_lost_record_of_the_living_topic_is_found(lives: list[list[str]], data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(lives[-1]), min_size=1))
    found = compare(lives, [record for record in _copy(lives) if record not in lost])
    assert (found.lost, found.doubled, found.out_of_order, found.left_behind) == (len(lost), 0, 0, 0)
    assert set(found.violations(may_repeat=True)) == {"lost"}


@given(FULL, st.data())
def test_every_repetition_is_found(lives: list[list[str]], data: st.DataObject) -> None:
    copy = _copy(lives)
    first = data.draw(st.integers(0, len(copy) - 1))
    last = data.draw(st.integers(first + 1, len(copy)))
    again = [*copy[:last], *copy[first:]]  # as a lane does that restarts from its checkpoint
    found = compare(lives, again)
    assert (found.lost, found.doubled, found.out_of_order) == (0, last - first, 0)
    assert not found.violations(may_repeat=True)
    assert set(found.violations(may_repeat=False)) == {"doubled"}


@given(FULL, st.data())
def test_a_record_that_overtakes_others_is_found(lives: list[list[str]], data: st.DataObject) -> None:
    copy = _copy(lives)
    start = len(copy) - len(lives[-1])
    to = data.draw(st.integers(start, len(copy) - 2))
    at = data.draw(st.integers(to + 1, len(copy) - 1))
    copy.insert(to, copy.pop(at))
    found = compare(lives, copy)
    assert (found.lost, found.doubled, found.out_of_order) == (0, 0, at - to)


@given(LIVES, st.data())
def test_aborted_and_foreign_records_are_told_apart(lives: list[list[str]], data: st.DataObject) -> None:
    copy = _copy(lives)
    extra = data.draw(st.lists(st.sampled_from(["aborted 1", "aborted 2", "stranger"]), min_size=1))
    for record in extra:
        copy.insert(data.draw(st.integers(0, len(copy))), record)
    found = compare(lives, copy, {"aborted 1", "aborted 2"})
    assert found.foreign == extra.count("stranger")
    assert found.aborted == len(extra) - found.foreign
    assert (found.lost, found.doubled, found.out_of_order) == (0, 0, 0)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=4), st.data())
def test_of_a_deleted_topic_the_end_may_be_left_behind_and_nothing_else(
    sizes: list[int], data: st.DataObject
) -> None:
    lives = [[f"{life}/{number}" for number in range(size)] for life, size in enumerate(sizes)]
    kept = [life[: data.draw(st.integers(0, len(life)))] for life in lives[:-1]]
    found = compare(lives, _copy([*kept, lives[-1]]))
    left = sum(map(len, lives[:-1])) - sum(map(len, kept))
    assert (found.lost, found.left_behind, found.violations(may_repeat=False)) == (0, left, {})
    holed = next((life for life in kept if len(life) > 1), None)
    if holed is not None:
        holed.pop(0)
        assert compare(lives, _copy([*kept, lives[-1]])).lost == 1


def test_records_of_an_old_life_behind_the_new_one_are_out_of_order() -> None:
    assert compare([["a"], ["b"]], ["b", "a"]).out_of_order == 1


def test_findings_of_partitions_add_up() -> None:
    assert Findings(1, 2, 3, 4, 5, 6, 7, 8) + Findings(1, 1, 1, 1, 1, 1, 1, 1) == Findings(
        2, 3, 4, 5, 6, 7, 8, 9
    )


def test_what_the_source_holds_twice_arrives_twice() -> None:
    twice = [["a", "b", "b", "c"]]
    assert compare(twice, twice[0]) == Findings(written=4, arrived=4)
    assert compare(twice, ["a", "b", "b", "b", "c"]).doubled == 1
    assert compare(twice, ["a", "b", "c"]).lost == 1


def test_repetitions_have_places() -> None:
    assert repeated("abcdef") == []
    assert repeated("abcdbcdeab") == [(1, 4, 3), (0, 8, 2)]
