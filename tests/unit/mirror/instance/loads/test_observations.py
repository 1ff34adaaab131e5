"""Test the leader's memory of observed loads."""

from __future__ import annotations

import pytest

from mirror.instance.loads.observations import DAY_SECONDS, NEWEST, LoadMemory, Snapshot
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE_LOADS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HOUR = 3_600.0


def a_report(rate: float, measured_at_ms: int | None = None) -> LoadReport:
    return LoadReport({T0: PartitionLoad(rate, 2.0), T1: PartitionLoad(1.0)}, "test", measured_at_ms)


def totals(memory: LoadMemory, now: float) -> list[float]:
    return [one[T0].bytes_per_second for one in memory.before(SOURCE_LOADS, now)]


def test_a_snapshot_says_what_was_observed_and_leaves_defaults_out() -> None:
    loads = {
        T0: PartitionLoad(7.5, 2.0, LoadLevel.TOPIC),
        T1: PartitionLoad(3.0),
        TopicPartition("u", 0): PartitionLoad(5.0, 5.0, LoadLevel.DEFAULT),
    }
    first = Snapshot(loads, None)
    assert {key: (load.bytes_per_second, load.messages_per_second) for key, load in first.items()} == {
        T0: (7.5, 2.0),
        T1: (3.0, None),
    }
    assert Snapshot(dict(reversed(loads.items())), first).numbers is first.numbers
    other = Snapshot({T1: PartitionLoad(9.0)}, first)
    assert (len(other), other[T1].bytes_per_second, other.get(T0)) == (1, 9.0, None)


def test_only_what_was_before_counts_and_each_cluster_for_itself() -> None:
    memory = LoadMemory()
    memory.note(SOURCE_LOADS, a_report(1.0), 10.0)
    memory.note(SOURCE_LOADS, a_report(2.0), 20.0)
    assert totals(memory, 20.0) == [1.0]
    assert totals(memory, 20.1) == [1.0, 2.0]
    assert memory.before(LoadSource(DESTINATION), 99.0) == ()


def test_an_answer_that_repeats_the_last_one_is_no_observation() -> None:
    memory = LoadMemory()
    for now, measured_at_ms in ((10.0, 5), (20.0, 5), (30.0, 6)):
        memory.note(SOURCE_LOADS, a_report(now, measured_at_ms), now)
    assert totals(memory, 99.0) == [10.0, 30.0]


def test_an_answer_without_loads_is_no_observation() -> None:
    memory = LoadMemory()
    memory.note(SOURCE_LOADS, LoadReport({T0: PartitionLoad(5.0, 5.0, LoadLevel.DEFAULT)}, "test"), 1.0)
    assert memory.before(SOURCE_LOADS, 2.0) == ()


@pytest.mark.parametrize("step", [600.0, HOUR])
def test_a_day_leaves_the_newest_and_the_heaviest_of_each_quarter(step: float) -> None:
    memory = LoadMemory()
    hours = int(3 * DAY_SECONDS / step)
    for number in range(hours):
        noon = (number * step) % DAY_SECONDS == DAY_SECONDS / 2
        memory.note(SOURCE_LOADS, a_report(1000.0 if noon else 1.0), number * step)
    kept = totals(memory, hours * step)
    assert kept[-NEWEST:] == [1.0] * NEWEST
    assert 1000.0 in kept
    assert len(kept) <= NEWEST + 5


def test_each_group_is_remembered_at_its_own_peak() -> None:
    """The smaller of two partitions of one source peaks an hour before the larger one."""
    memory, groups = LoadMemory(), [frozenset({T0}), frozenset({T1})]
    for number in range(24):
        small, large = (9.0 if number == 7 else 1.0), (90.0 if number == 8 else 50.0)
        report = LoadReport({T0: PartitionLoad(small), T1: PartitionLoad(large)}, "test")
        memory.note(SOURCE_LOADS, report, number * HOUR, groups)
    kept = memory.before(SOURCE_LOADS, 24 * HOUR)
    assert max(one[T0].bytes_per_second for one in kept) == 9.0
    assert max(one[T1].bytes_per_second for one in kept) == 90.0
    assert len(kept) <= NEWEST + 5


def test_what_is_older_than_a_day_is_forgotten() -> None:
    memory = LoadMemory()
    memory.note(SOURCE_LOADS, a_report(1.0), 0.0)
    assert totals(memory, DAY_SECONDS) == [1.0]
    assert totals(memory, DAY_SECONDS + 1) == []


def test_a_shorter_memory_forgets_sooner_and_keeps_the_heaviest_of_its_quarters() -> None:
    memory = LoadMemory(400.0)
    for number in range(60):
        memory.note(SOURCE_LOADS, a_report(1000.0 if number == 5 else float(number)), number * 10.0)
    assert 1000.0 not in totals(memory, 600.0)
    assert totals(memory, 600.0)[-NEWEST:] == [57.0, 58.0, 59.0]
    assert len(totals(memory, 600.0)) <= NEWEST + 5
    memory.note(SOURCE_LOADS, a_report(1000.0), 600.0)
    for number in range(61, 65):
        memory.note(SOURCE_LOADS, a_report(1.0), number * 10.0)
    assert 1000.0 in totals(memory, 1_000.0)
    assert 1000.0 not in totals(memory, 1_000.1)
