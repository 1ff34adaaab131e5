"""Determines the load of every partition: its own measured load, the load of its topic, or the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mirror.errors import InvalidRequest
from mirror.model.load import HIGHEST_RATE, LoadLevel, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.wording import counted

Rates = npt.NDArray[np.float64]
Levels = npt.NDArray[np.int8]

LEVELS: Final = (LoadLevel.PARTITION, LoadLevel.TOPIC, LoadLevel.DEFAULT)
"""Load level (partition, topic or default) for each number in `PartitionLoads.levels`."""

UNKNOWN_LOAD: Final = PartitionLoad(5 * 1024, 5.0, LoadLevel.DEFAULT)
"""Brooklin's assumption for a partition without a known load: 5 KiB/s and 5 messages/s."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionLoads:
    """Loads of all partitions, in any order.

    `rates`: float64[n, 2], bytes per second and messages per second. `levels`: int8[n], an index into LEVELS.
    `recent`: earlier observations of the same partitions, oldest first, float64[h, n, 2]; may be empty.
    """

    partitions: tuple[TopicPartition, ...]
    rates: Rates
    levels: Levels
    recent: Rates = field(default_factory=lambda: np.empty((0, 0, 2)))

    def __post_init__(self) -> None:
        count = len(self.partitions)
        if self.rates.shape != (count, 2) or self.levels.shape != (count,):
            raise InvalidRequest(f"expected loads of {counted(count, 'partition')}, got {len(self.rates)}")
        if len(self.recent) and self.recent.shape[1:] != (count, 2):
            raise InvalidRequest(
                f"expected recent loads of {counted(count, 'partition')}, got {self.recent.shape[1]}"
            )
        refuse_impossible(self.partitions, self.rates)
        for observation in self.recent:
            refuse_impossible(self.partitions, observation)


def resolve(
    partitions: Sequence[TopicPartition],
    known: Mapping[TopicPartition, PartitionLoad],
    topics: Mapping[str, PartitionLoad] | None = None,
    default: PartitionLoad = UNKNOWN_LOAD,
    recent: Sequence[Mapping[TopicPartition, PartitionLoad]] = (),
) -> PartitionLoads:
    """Return the load of every partition: its own, else the mean of its topic, else the default.

    The mean load of the topic's partitions is used if the partition's load is unknown. The default is used if
    both are unknown. If a load has no message rate, the message rate of the next coarser level is used.
    Partitions missing in an observation of `recent` get their current load. Raises InvalidRequest that names
    a partition with an invalid load.
    """
    topics = topics or {}
    rates, levels = _rates(partitions, known, topics, default)
    history = np.empty((len(recent), len(partitions), 2))
    for row, observation in enumerate(recent):
        history[row] = rates
        for index, partition in enumerate(partitions):
            load = observation.get(partition)
            if load is not None:
                history[row, index] = load.bytes_per_second, _messages(load, topics, partition, default)
    return PartitionLoads(tuple(partitions), rates, levels, history)


def _rates(
    partitions: Iterable[TopicPartition],
    known: Mapping[TopicPartition, PartitionLoad],
    topics: Mapping[str, PartitionLoad],
    default: PartitionLoad,
) -> tuple[Rates, Levels]:
    level_numbers = {level: number for number, level in enumerate(LEVELS)}
    topic_level, default_level = level_numbers[LoadLevel.TOPIC], level_numbers[LoadLevel.DEFAULT]
    sizes: list[float] = []
    messages: list[float] = []
    levels: list[int] = []
    for partition in partitions:
        load = known.get(partition)
        if load is not None:
            levels.append(level_numbers[load.level])
        elif (load := topics.get(partition.topic)) is not None:
            levels.append(topic_level)
        else:
            load = default
            levels.append(default_level)
        sizes.append(load.bytes_per_second)
        messages.append(_messages(load, topics, partition, default))
    rates = np.array([sizes, messages], dtype=np.float64).T
    return np.ascontiguousarray(rates), np.array(levels, dtype=np.int8)


def _messages(
    load: PartitionLoad,
    topics: Mapping[str, PartitionLoad],
    partition: TopicPartition,
    default: PartitionLoad,
) -> float:
    if load.messages_per_second is not None:
        return load.messages_per_second
    topic = topics.get(partition.topic)
    if topic is not None and topic.messages_per_second is not None:
        return topic.messages_per_second
    return default.messages_per_second or 0.0


def scaled(load: PartitionLoad, factor: float) -> PartitionLoad:
    """Return a partition load multiplied by `factor`."""
    messages = load.messages_per_second
    return replace(
        load,
        bytes_per_second=load.bytes_per_second * factor,
        messages_per_second=None if messages is None else messages * factor,
    )


def refuse_impossible(partitions: Sequence[TopicPartition], rates: Rates) -> None:
    """Raise InvalidRequest that names the first partition with a load that is NaN, infinite, negative or too
    large."""
    possible = (rates >= 0) & (rates <= HIGHEST_RATE)
    if possible.all():
        return
    row, column = (int(part) for part in np.argwhere(~possible)[0])
    unit = ("bytes", "messages")[column]
    value = float(rates[row, column])
    raise InvalidRequest(
        f"invalid load of partition {partitions[row]}: {value} {unit} per second",
        advice=f"loads must be between 0 and {HIGHEST_RATE:.0e}; omit unknown loads",
    )
