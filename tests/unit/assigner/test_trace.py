"""Export of a recorded history for other parties."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from assigner.forecast.outlook import HOUR_MS
from assigner.what_if.replay import Hourly, hours_from_csv
from assigner.what_if.trace import anonymised, lines
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition

rates = st.integers(0, 99_999).map(float)
loads = st.builds(PartitionLoad, rates, st.none() | rates)
partitions = st.builds(
    TopicPartition, st.sampled_from(["orders", "pay.ments", "a", "secret_b"]), st.integers(0, 9)
)
pasts = st.dictionaries(
    st.integers(400_000, 500_000).map(lambda number: number * HOUR_MS),
    st.dictionaries(partitions, loads, min_size=1),
    min_size=1,
)


@given(pasts)
def test_what_is_written_is_read_again(hours: Hourly) -> None:
    assert hours_from_csv("".join(lines(hours))) == hours


@given(pasts, st.integers())
def test_nothing_but_names_and_dates_changes(hours: Hourly, seed: int) -> None:
    found = anonymised(hours, Random(seed))
    names: dict[str, set[str]] = {}
    assert len(found) == len(hours)
    for was, now in zip(sorted(hours), sorted(found), strict=True):
        assert 0 <= now <= was
        assert (at(was).weekday(), at(was).hour) == (at(now).weekday(), at(now).hour)
        assert sorted(map(str, hours[was].values())) == sorted(map(str, found[now].values()))
        for partition in hours[was]:
            names.setdefault(partition.topic, set())
    text = "".join(lines(found))
    assert not any(topic in text for topic in names if len(topic) > 1)


def test_the_order_of_topics_says_nothing() -> None:
    hours: Hourly = {
        0: {TopicPartition(f"t{number}", 0): PartitionLoad(float(number)) for number in range(9)}
    }
    orders = {
        tuple(load.bytes_per_second for _, load in sorted(anonymised(hours, Random(seed))[0].items()))
        for seed in range(9)
    }
    assert len(orders) > 1


def at(hour_ms: int) -> datetime:
    return datetime.fromtimestamp(hour_ms / 1000, UTC)
