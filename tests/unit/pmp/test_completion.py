"""Every partition asked for gets a load that says how well it is known; wrong names are noticed."""

from __future__ import annotations

from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pmp.completion import completed, coverage_notes, mismatch_notes

KNOWN = {
    TopicPartition("a", 0): PartitionLoad(100.0, 10.0, LoadLevel.PARTITION, RateSource.SLOPE),
    TopicPartition("a", 1): PartitionLoad(300.0, 30.0, LoadLevel.PARTITION, RateSource.SLOPE),
}


def test_partition_then_topic_then_default() -> None:
    asked = [TopicPartition(*p) for p in (("a", 0), ("a", 2), ("b", 0), ("c", 0))]
    answers = completed(KNOWN, asked, topic_means={"b": 7.0}, default_bytes_per_second=5.0)
    assert [answers[p].bytes_per_second for p in asked] == [100.0, 200.0, 7.0, 5.0]
    assert [answers[p].level for p in asked] == [
        LoadLevel.PARTITION,
        LoadLevel.TOPIC,
        LoadLevel.TOPIC,
        LoadLevel.DEFAULT,
    ]
    assert answers[asked[3]].rate_source is RateSource.CONFIGURED
    (note,) = coverage_notes(answers)
    assert note.startswith("1 of 4 partitions have loads of their own; 2 ")


def test_a_complete_answer_has_no_note() -> None:
    assert coverage_notes(KNOWN) == []
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
