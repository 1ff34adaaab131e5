"""The search for the latest timestamp up to a record succeeds and ends, for any log."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mirror.adapters.kafka.record_times import MOST_QUESTIONS, TimeSearch
from mirror.protocol.control.offsets import OffsetAnswer

NOW_MS = 1_800_000_000_000
STAMPS = st.integers(min_value=0, max_value=NOW_MS + 10_000_000)
NOTHING = OffsetAnswer(0, -1, -1, -1)


def answer(log: Sequence[int], moment: int) -> OffsetAnswer:
    """Return the response of a broker: the first record that is not older than the moment."""
    for offset, stamp in enumerate(log):
        if stamp >= moment:
            return OffsetAnswer(0, offset, 0, stamp)
    return NOTHING


def search(log: Sequence[int], offset: int) -> tuple[int | None, int]:
    """Return the result, and the number of requests."""
    one = TimeSearch(offset, NOW_MS)
    for number in range(MOST_QUESTIONS):
        if one.is_over:
            return one.found_ms, number
        one.take(answer(log, one.moment))
    return one.found_ms, MOST_QUESTIONS


@given(st.lists(STAMPS, min_size=1, max_size=20), st.data())
def test_the_newest_time_up_to_a_record_is_found(log: list[int], data: st.DataObject) -> None:
    offset = data.draw(st.integers(min_value=0, max_value=len(log) - 1))
    newest = max(log[: offset + 1])
    found, _ = search(log, offset)
    if NOW_MS - newest > 10**12:
        assert found is None or found == newest
    elif NOW_MS - newest <= 1_000:
        assert found is not None
        assert found >= NOW_MS - 1_100
    else:
        assert found is not None
        assert 0 <= newest - found <= 0.01 * (NOW_MS - newest) + 1


def test_a_log_without_time_stamps_says_nothing() -> None:
    assert search([-1, -1, -1], 1) == (None, MOST_QUESTIONS)


def test_a_record_that_begins_something_is_found_exactly() -> None:
    log = [NOW_MS - 7_200_000, NOW_MS - 3_600_000, NOW_MS - 60_000]
    assert [search(log, offset)[0] for offset in range(3)] == log
