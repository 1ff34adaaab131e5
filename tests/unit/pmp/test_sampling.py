"""Samples with true rates, made from two snapshots of a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.topics import TopicPartition
from pmp.samples.description import describe_line
from pmp.samples.sample import encode
from pmp.samples.snapshot import LogSnapshot, sample

ONE = TopicPartition("t", 0)
BEFORE = LogSnapshot(
    time_ms=1_000_000,
    offsets_seconds=100.0,
    sizes_seconds=100.5,
    leaders={ONE: 1},
    end_offsets={ONE: 50},
    size_bytes={ONE: 5000},
)
NOW = replace(
    BEFORE,
    time_ms=1_010_000,
    offsets_seconds=110.0,
    sizes_seconds=110.7,
    end_offsets={ONE: 150},
    size_bytes={ONE: 15_200},
)


def test_rates_are_differences_over_the_time_between_the_readings() -> None:
    found = sample(BEFORE, NOW, {})
    (one,) = found.samples
    assert one.messages_in_per_second == pytest.approx(10.0)
    assert one.bytes_in_per_second == pytest.approx(1000.0)
    assert (one.topic, one.partition, one.broker, one.time_ms) == ("t", 0, 1, NOW.time_ms)
    assert one.size_bytes == 15_200
    assert found.bytes_per_message == {ONE: 102.0}


@pytest.mark.parametrize(
    "now",
    [replace(NOW, size_bytes={ONE: 4000}), replace(NOW, leaders={ONE: 2})],
    ids=["the log shrank", "the leader moved"],
)
def test_bytes_follow_from_messages_where_sizes_say_nothing(now: LogSnapshot) -> None:
    (one,) = sample(BEFORE, now, {ONE: 200.0}).samples
    assert one.bytes_in_per_second == pytest.approx(2000.0)


@pytest.mark.parametrize("messages", [0, 100])
def test_bytes_are_given_only_where_they_are_known(messages: int) -> None:
    """The log shrank and its message size is unknown: it has an inflow, of 0, only without messages."""
    now = replace(NOW, size_bytes={ONE: 4000}, end_offsets={ONE: 50 + messages})
    assert [one.bytes_in_per_second for one in sample(BEFORE, now, {}).samples] == ([] if messages else [0.0])


def test_what_the_protocol_does_not_say_is_unknown() -> None:
    (one,) = sample(BEFORE, replace(NOW, time_ms=1_795_000_000_000), {}).samples
    assert one.bytes_out_per_second is None
    assert one.cpu is None
    assert (one.replication_bytes_in_per_second, one.replication_bytes_out_per_second) == (None, None)
    found = describe_line(encode(one).hex())
    assert {key for key, value in found.items() if value is None} == {
        "bytes_out_per_second",
        "replication_bytes_in_per_second",
        "replication_bytes_out_per_second",
        "cpu",
    }


def test_an_idle_partition_has_a_sample_of_zeros_and_keeps_what_is_known() -> None:
    now = replace(NOW, end_offsets={ONE: 50}, size_bytes={ONE: 5000})
    found = sample(BEFORE, now, {ONE: 200.0})
    (one,) = found.samples
    assert (one.bytes_in_per_second, one.messages_in_per_second) == (0.0, 0.0)
    assert found.bytes_per_message == {ONE: 200.0}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (replace(BEFORE, end_offsets={}, size_bytes={}), NOW),
        (BEFORE, replace(NOW, leaders={})),
        (BEFORE, replace(NOW, size_bytes={})),
        (BEFORE, replace(NOW, end_offsets={ONE: 10})),
    ],
    ids=["new", "without a leader", "without a size", "created anew"],
)
def test_a_partition_that_cannot_be_compared_has_no_sample(before: LogSnapshot, now: LogSnapshot) -> None:
    assert sample(before, now, {}).samples == ()
