"""What partitions carry and what tasks can bear. Bytes and messages per second, never other units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import MOST_PARTITIONS, TopicPartition

MOST_TASKS: Final = 10_000
"""Tasks that a datastream may ask for."""
HIGHEST_RATE: Final = 10**12
"""Bytes or messages per second of one partition; more is a mistake in the data, and no planner takes it."""

LARGEST_CAPACITY: Final = 10**12
"""Bytes or messages per second of one task."""
HOT_SHARE: Final = 0.5
"""Of the usable capacity of a task: a partition whose load alone is that much or more is hot."""


class LoadSource(NamedTuple):
    """A source cluster, and the load provider that says what its partitions carry: a name that datastreams
    choose, or empty for that of the service."""

    cluster: ClusterRef
    provider: str = ""

    def __str__(self) -> str:
        return f"{self.cluster} by {self.provider}" if self.provider else self.cluster


class LoadLevel(StrEnum):
    """How exactly a load is known."""

    PARTITION = "partition"
    TOPIC = "topic"
    DEFAULT = "default"


class RateSource(StrEnum):
    """What a rate was computed from: the slope of the log size over the whole range, a part of the range (of
    a topic's mean also: a part of its partitions), what was measured before the measurements stopped, an
    average over the topic's partitions, the mirror's own count, or nothing but configuration."""

    SLOPE = "slope"
    PARTIAL = "partial"
    HELD = "held"
    MEAN = "mean"
    MIRROR = "mirror"
    CONFIGURED = "configured"


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """The load of one partition. `messages_per_second` is None where the source does not know it.

    `measured_at_ms`: time of the newest measurement that the load rests on (epoch milliseconds), None
    where it rests on none.
    """

    bytes_per_second: float
    messages_per_second: float | None = None
    level: LoadLevel = LoadLevel.PARTITION
    rate_source: RateSource = RateSource.MIRROR
    measured_at_ms: int | None = None

    def age_ms(self, now_ms: int) -> int | None:
        """Milliseconds since the newest measurement that the load rests on; None where there is none."""
        return None if self.measured_at_ms is None else max(0, now_ms - self.measured_at_ms)


@dataclass(frozen=True)
class LoadReport:
    """A provider's answer about one source cluster.

    `measured_at_ms`: time of the newest measurement (epoch milliseconds), None when there is none.
    `notes`: what a person should know about this answer (stale, key mismatch, fallback), one
    sentence each. `at_least`: partitions of which more may arrive than was measured, because they are
    behind: their loads are lower bounds.
    """

    loads: Mapping[TopicPartition, PartitionLoad]
    provider: str
    measured_at_ms: int | None = None
    notes: tuple[str, ...] = ()
    at_least: frozenset[TopicPartition] = frozenset()

    @property
    def measured(self) -> int:
        """Number of partitions whose own load is known."""
        return sum(load.level is LoadLevel.PARTITION for load in self.loads.values())

    @property
    def is_blind(self) -> bool:
        """Whether nothing is known, not even of a topic: whatever it says is a default."""
        return all(load.level is LoadLevel.DEFAULT for load in self.loads.values())


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new a provider's loads of one source cluster are.

    `measured_at_ms`: time of the newest measurement (epoch milliseconds), None where nothing is measured now
    and nothing is amiss. After `stale_after_ms` without another one the loads are stale. `measured`:
    partitions with a load of their own, None where that takes a whole answer to know. `behind`: those of
    them that are copied more slowly than records may arrive.
    """

    measured_at_ms: int | None
    stale_after_ms: int
    measured: int | None = None
    behind: int = 0


def age_text(milliseconds: int) -> str:
    """An age for people; one below zero, by clocks that differ, is none."""
    seconds = max(milliseconds, 0) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


@dataclass(frozen=True, slots=True)
class TaskCapacity:
    """What one task bears. Usable is capacity * utilisation_percent // 100.

    Raises InvalidRequest when a capacity is not positive or above `LARGEST_CAPACITY`, or the share is not
    within 1 to 100.
    """

    bytes_per_second: int
    messages_per_second: int | None = None
    utilisation_percent: int = 90

    def __post_init__(self) -> None:
        for what, number in (("bytes", self.bytes_per_second), ("messages", self.messages_per_second)):
            if number is not None and not 0 < number <= LARGEST_CAPACITY:
                raise InvalidRequest(
                    f"the capacity of a task in {what} per second is {bounds.shown(number)}; "
                    f"it must be above 0 and at most {LARGEST_CAPACITY:.0e}"
                )
        if not 0 < self.utilisation_percent <= 100:
            raise InvalidRequest("the utilisation threshold of a task lies between 1 and 100 percent")

    @property
    def usable_bytes_per_second(self) -> int:
        """What placement fills a task up to, in bytes per second."""
        return self.bytes_per_second * self.utilisation_percent // 100

    @property
    def usable_messages_per_second(self) -> int | None:
        """What placement fills a task up to, in messages per second."""
        if self.messages_per_second is None:
            return None
        return self.messages_per_second * self.utilisation_percent // 100


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Bounds on the tasks of a datastream. None means no bound.

    Raises InvalidRequest when a bound is not within 1 to `MOST_TASKS` (partitions: a million) or min exceeds
    max.
    """

    min_tasks: int = 1
    max_tasks: int | None = None
    max_partitions_per_task: int | None = None

    def __post_init__(self) -> None:
        bounds.integer("min_tasks", self.min_tasks, 1, MOST_TASKS)
        if self.max_tasks is not None:
            bounds.integer("max_tasks", self.max_tasks, 1, MOST_TASKS)
            if self.max_tasks < self.min_tasks:
                raise InvalidRequest(f"max_tasks {self.max_tasks} is below min_tasks {self.min_tasks}")
        if self.max_partitions_per_task is not None:
            bounds.integer("max_partitions_per_task", self.max_partitions_per_task, 1, MOST_PARTITIONS)

    def hold(self, sizes: Sequence[int]) -> bool:
        """Whether tasks with these numbers of partitions are within the bounds."""
        if self.max_tasks is not None and len(sizes) > self.max_tasks:
            return False
        widest = self.max_partitions_per_task
        return (widest is None or max(sizes, default=0) <= widest) and not self.ask_for_more(sizes)

    def ask_for_more(self, sizes: Sequence[int]) -> bool:
        """Whether fewer of these tasks have partitions than the least number of tasks, as far as there are
        partitions for them."""
        return len([size for size in sizes if size]) < min(self.min_tasks, sum(sizes))


def impossible_limits(several: Iterable[TaskLimits]) -> tuple[int, int] | None:
    """The least and the most of tasks that datastreams share, where the least is above the most."""
    found = tuple(several)
    least = max((one.min_tasks for one in found), default=1)
    most = joint_limits(found).max_tasks
    return (least, most) if most is not None and least > most else None


def joint_limits(several: Iterable[TaskLimits]) -> TaskLimits:
    """What holds for tasks that datastreams share: of each bound the strictest; the most where the least is
    above it."""
    found = tuple(several)
    most = min((one.max_tasks for one in found if one.max_tasks is not None), default=None)
    widest = min(
        (one.max_partitions_per_task for one in found if one.max_partitions_per_task is not None),
        default=None,
    )
    least = max((one.min_tasks for one in found), default=1)
    return TaskLimits(least if most is None else min(least, most), most, widest)


def hot_from(usable_bytes_per_second: float) -> float:
    """Return the load from which on a partition is hot, where a task may carry `usable_bytes_per_second`."""
    return HOT_SHARE * usable_bytes_per_second
