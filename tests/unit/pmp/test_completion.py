"""Every requested partition gets a load with its precision; name mismatches are detected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import TopicRates
from pmp.loads.completion import completed, coverage_notes, mark_notes, mismatch_notes

KNOWN = {
    TopicPartition("a", 0): PartitionLoad(100.0, 10.0, LoadLevel.PARTITION, RateSource.SLOPE, 70),
    TopicPartition("a", 1): PartitionLoad(300.0, 30.0, LoadLevel.PARTITION, RateSource.SLOPE, 60),
}


def test_partition_then_topic_then_default() -> None:
    asked = [TopicPartition(*p) for p in (("a", 0), ("a", 2), ("b", 0), ("c", 0))]
    means = {"b": TopicRates("b", 4, 7.0, 20)}
    answers = completed(KNOWN, asked, topic_means=means, default_bytes_per_second=5.0)
    assert [answers[p].bytes_per_second for p in asked] == [100.0, 200.0, 7.0, 5.0]
    assert [answers[p].level for p in asked] == [
        LoadLevel.PARTITION,
        LoadLevel.TOPIC,
        LoadLevel.TOPIC,
        LoadLevel.DEFAULT,
    ]
    assert [answers[p].rate_source for p in asked[1:]] == [
        RateSource.MEAN,
        RateSource.MEAN,
        RateSource.CONFIGURED,
    ]
    assert [answers[p].age_ms(100) for p in asked] == [30, 30, 80, None]
    (note,) = coverage_notes(answers)
    assert [int(word) for word in note.replace(",", "").split() if word.isdigit()] == [1, 4, 2, 1]


def test_a_seasonal_load_comes_between_a_partitions_own_and_the_mean_of_its_topic() -> None:
    asked = [TopicPartition("a", number) for number in range(4)]
    hour = PartitionLoad(50.0, None, LoadLevel.PARTITION, RateSource.SEASONAL, 5)
    seasonal = {asked[0]: hour, asked[2]: hour}
    answers = completed(KNOWN, asked, seasonal=seasonal, topic_means={}, default_bytes_per_second=5.0)
    assert [answers[one].bytes_per_second for one in asked] == [100.0, 300.0, 50.0, 200.0]
    assert [note.partition(":")[0] for note in mark_notes(answers, 100)] == ["seasonal"]


@pytest.mark.parametrize(
    ("sources", "partitions", "expected"),
    [
        ([RateSource.SLOPE] * 2, 4, RateSource.MEAN),
        ([RateSource.SLOPE] * 2, 5, RateSource.PARTIAL),
        ([RateSource.SLOPE, RateSource.PARTIAL], 3, RateSource.PARTIAL),
        ([RateSource.SLOPE, RateSource.HELD], 3, RateSource.PARTIAL),
        ([RateSource.HELD] * 2, 9, RateSource.HELD),
    ],
)
def test_a_mean_says_of_what_it_is(sources: list[RateSource], partitions: int, expected: RateSource) -> None:
    known = {
        key: replace(load, rate_source=source)
        for (key, load), source in zip(KNOWN.items(), sources, strict=True)
    }
    asked = [TopicPartition("a", number) for number in range(partitions)]
    answers = completed(known, asked, topic_means={}, default_bytes_per_second=5.0)
    assert {answers[p].rate_source for p in asked[2:]} == {expected}


@pytest.mark.parametrize(("sampled", "expected"), [(1, RateSource.PARTIAL), (2, RateSource.MEAN)])
def test_a_past_mean_of_few_partitions_is_partial(sampled: int, expected: RateSource) -> None:
    asked = [TopicPartition("b", number) for number in range(4)]
    means = {"b": TopicRates("b", sampled, 7.0, 20)}
    answers = completed({}, asked, topic_means=means, default_bytes_per_second=5.0)
    assert {(load.level, load.rate_source) for load in answers.values()} == {(LoadLevel.TOPIC, expected)}


def test_a_complete_answer_has_no_note() -> None:
    assert coverage_notes(KNOWN) == []
    assert mark_notes(KNOWN, 100) == []
    assert mismatch_notes("source", KNOWN, KNOWN) == []


def test_names_that_do_not_match_raise_a_flag_with_the_likely_twin() -> None:
    sampled = [TopicPartition("my_orders_eu", 0), TopicPartition("users", 0)]
    asked = [TopicPartition("my.orders-eu", 0), TopicPartition("other", 0), TopicPartition("users", 0)]
    (note,) = mismatch_notes("source", sampled, asked)
    assert note.startswith("key mismatch: 2 of 3 ")
    assert note.endswith(" my_orders_eu")


def test_a_few_gaps_are_no_mismatch() -> None:
    sampled = [TopicPartition(f"t{n}", 0) for n in range(9)]
    assert mismatch_notes("source", sampled, [*sampled, TopicPartition("new", 0)]) == []
    assert mismatch_notes("source", [], sampled) == []


def test_loads_that_are_not_of_the_whole_window_are_named() -> None:
    first, second = KNOWN
    held = replace(KNOWN[first], rate_source=RateSource.HELD)
    older = replace(held, measured_at_ms=-200_000)
    partial = replace(KNOWN[second], rate_source=RateSource.PARTIAL)
    (note,) = mark_notes({first: held, second: older}, 1_000)
    assert note.startswith("held: 2 of 2 partitions")
    assert "a-1 " in note
    assert note.endswith(" 3 min")
    (note,) = mark_notes({first: KNOWN[first], second: partial}, 1_000)
    assert note.startswith("partial: ")
    assert " 1 of 2 partitions " in note
