"""The leader's memory of a day, for any loads of each group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.instance.loads.observations import LoadMemory
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE_LOADS


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=5, max_size=30))
def test_nothing_that_a_group_needed_is_forgotten(rates: list[tuple[int, ...]]) -> None:
    """One quarter of a day with two groups of two partitions, checked after each observation."""
    places = [TopicPartition("t", number) for number in range(4)]
    groups = [frozenset(places[:2]), frozenset(places[2:])]
    memory = LoadMemory()
    for number, each in enumerate(rates):
        loads = {place: PartitionLoad(float(rate)) for place, rate in zip(places, each, strict=True)}
        memory.note(SOURCE_LOADS, LoadReport(loads, "test"), float(number), groups)
        kept = memory.before(SOURCE_LOADS, float(number + 1))
        for group, members in zip(groups, (slice(0, 2), slice(2, 4)), strict=True):
            needed = max(sum(one[members]) for one in rates[: number + 1])
            assert max(one.carried(group) for one in kept) == needed
