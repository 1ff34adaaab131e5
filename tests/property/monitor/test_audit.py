"""The algebra of an audit: multisets of records at both ends."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from monitor.audit import audit_topic

records = st.tuples(st.integers(0, 3), st.sampled_from([b"a", b"b", b"c", b"d"]))
contents = st.lists(records, max_size=40).map(Counter)


@given(contents)
def test_a_true_copy_is_complete(source: Counter[tuple[int, bytes]]) -> None:
    result = audit_topic("t", source, Counter(source))
    assert result.is_complete
    assert (result.missing, result.duplicates, result.foreign) == (0, 0, 0)
    assert result.source_records == result.destination_records == source.total()


@given(contents, contents)
def test_every_record_is_accounted_for(
    source: Counter[tuple[int, bytes]], destination: Counter[tuple[int, bytes]]
) -> None:
    result = audit_topic("t", source, destination)
    arrived = result.source_records - result.missing
    assert arrived >= 0
    assert result.destination_records == arrived + result.duplicates + result.foreign
    assert result.is_complete == (result.missing == 0 and result.foreign == 0)


@given(contents, contents)
def test_what_is_missing_there_is_surplus_here(
    one: Counter[tuple[int, bytes]], two: Counter[tuple[int, bytes]]
) -> None:
    there, back = audit_topic("t", one, two), audit_topic("t", two, one)
    assert there.missing == back.duplicates + back.foreign


@given(contents, st.lists(records, max_size=10))
def test_repeats_of_source_records_are_duplicates_and_nothing_else(
    source: Counter[tuple[int, bytes]], again: list[tuple[int, bytes]]
) -> None:
    repeated = [record for record in again if record in source]
    result = audit_topic("t", source, source + Counter(repeated))
    assert (result.missing, result.duplicates, result.foreign) == (0, len(repeated), 0)
    assert result.is_complete


@given(contents, records)
def test_a_record_in_the_wrong_partition_is_missing_in_one_and_foreign_in_the_other(
    source: Counter[tuple[int, bytes]], record: tuple[int, bytes]
) -> None:
    source[record] += 1
    moved = Counter(source)
    moved[record] -= 1
    elsewhere = (record[0] + 10, record[1])
    moved[elsewhere] += 1
    result = audit_topic("t", source, +moved)
    assert (result.missing, result.duplicates, result.foreign) == (1, 0, 1)
    assert not result.is_complete
