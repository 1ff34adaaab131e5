"""Every partition asked for gets a load that says how well it is known; wrong names are noticed."""

from __future__ import annotations

from dataclasses import replace

from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.loads import TopicRates
from pmp.completion import completed, coverage_notes, mark_notes, mismatch_notes

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
    assert answers[asked[3]].rate_source is RateSource.CONFIGURED
    assert [answers[p].age_ms(100) for p in asked] == [30, 30, 80, None]
    (note,) = coverage_notes(answers)
    assert note.startswith("1 of 4 partitions have loads of their own; 2 ")


def test_a_complete_answer_has_no_note() -> None:
    assert coverage_notes(KNOWN) == []
    assert mark_notes(KNOWN, 100) == []
    assert mismatch_notes("source", KNOWN, KNOWN) == []


def test_names_that_do_not_match_raise_a_flag_with_the_likely_twin() -> None:
    sampled = [TopicPartition("my_orders_eu", 0), TopicPartition("users", 0)]
    asked = [TopicPartition("my.orders-eu", 0), TopicPartition("other", 0), TopicPartition("users", 0)]
    (note,) = mismatch_notes("source", sampled, asked)
    assert note.startswith("key mismatch: 2 of 3 topics of cluster source")
    assert note.endswith("the samples call it my_orders_eu")


def test_a_few_gaps_are_no_mismatch() -> None:
    sampled = [TopicPartition(f"t{n}", 0) for n in range(9)]
    assert mismatch_notes("source", sampled, [*sampled, TopicPartition("new", 0)]) == []
    assert mismatch_notes("source", [], sampled) == []


def test_loads_that_are_not_of_the_whole_window_are_named() -> None:
    first, second = KNOWN
    held = replace(KNOWN[first], rate_source=RateSource.HELD)
    older = replace(held, measured_at_ms=-200_000)
    partial = replace(KNOWN[second], rate_source=RateSource.PARTIAL)
    assert mark_notes({first: held, second: older}, 1_000) == [
        "held: 2 of 2 partitions have no new samples and keep the load of before, a-1 since 3 min"
    ]
    assert mark_notes({first: KNOWN[first], second: partial}, 1_000) == [
        "partial: the load of 1 of 2 partitions is that of a part of the window"
    ]
