"""Completion of known loads to one load for every partition, and rejected loads."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.problem.loads import UNKNOWN_LOAD, PartitionLoads, resolve
from mirror.errors import InvalidRequest
from mirror.model.load import LoadLevel, PartitionLoad
from mirror.model.topics import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_own_load_then_the_topics_then_the_default() -> None:
    loads = resolve(
        [A0, A1, B0],
        {A0: PartitionLoad(100.0, 7.0)},
        {"a": PartitionLoad(30.0, 3.0, LoadLevel.TOPIC)},
        PartitionLoad(5.0, 1.0, LoadLevel.DEFAULT),
    )
    assert loads.rates.tolist() == [[100.0, 7.0], [30.0, 3.0], [5.0, 1.0]]
    assert loads.levels.tolist() == [0, 1, 2]


def test_a_provider_that_says_topic_level_is_believed() -> None:
    loads = resolve([A0], {A0: PartitionLoad(9.0, None, LoadLevel.TOPIC)})
    assert loads.levels.tolist() == [1]
    assert loads.rates.tolist() == [[9.0, UNKNOWN_LOAD.messages_per_second]]


def test_missing_messages_come_from_the_next_coarser_level() -> None:
    topics = {"a": PartitionLoad(30.0, 3.0)}
    assert resolve([A0], {A0: PartitionLoad(100.0)}, topics).rates.tolist() == [[100.0, 3.0]]


def test_a_recent_observation_that_lacks_a_partition_repeats_the_present() -> None:
    loads = resolve(
        [A0, A1],
        {A0: PartitionLoad(8.0, 1.0), A1: PartitionLoad(4.0, 1.0)},
        recent=[{A0: PartitionLoad(6.0, 2.0)}],
    )
    assert loads.recent.tolist() == [[[6.0, 2.0], [4.0, 1.0]]]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.001, 1.1e12])
@pytest.mark.parametrize("column", [0, 1])
def test_an_impossible_load_names_its_partition(value: float, column: int) -> None:
    rates = np.ones((2, 2))
    rates[1, column] = value
    with pytest.raises(InvalidRequest, match="partition a-1"):
        PartitionLoads((A0, A1), rates, np.zeros(2, np.int8))


def test_an_impossible_recent_load_names_its_partition() -> None:
    with pytest.raises(InvalidRequest, match="a-0"):
        resolve([A0], {A0: PartitionLoad(1.0)}, recent=[{A0: PartitionLoad(float("nan"))}])


def test_loads_must_match_the_partitions() -> None:
    with pytest.raises(InvalidRequest, match="expected loads of 2 partitions, got 1"):
        PartitionLoads((A0, A1), np.ones((1, 2)), np.zeros(2, np.int8))
