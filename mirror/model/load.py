"""Partition loads and task capacities, in bytes and messages per second."""

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
"""Maximum number of tasks that a datastream may request."""
HIGHEST_RATE: Final = 10**12
"""Maximum rate of one partition in bytes or messages per second. Planners reject higher rates as invalid."""

LARGEST_CAPACITY: Final = 10**12
"""Largest capacity of one task in bytes or messages per second."""
HOT_SHARE: Final = 0.5
"""Share of a task's usable capacity from which a partition is hot."""


class LoadSource(NamedTuple):
    """Source cluster together with the provider that measures the loads of its partitions.

    `provider`: empty for the default provider of the service.
    """

    cluster: ClusterRef
    provider: str = ""

    def __str__(self) -> str:
        return f"{self.cluster} by {self.provider}" if self.provider else self.cluster


class LoadLevel(StrEnum):
    """How specific a load is: measured for the partition, mean of its topic, or default."""

    PARTITION = "partition"
    TOPIC = "topic"
    DEFAULT = "default"


class RateSource(StrEnum):
    """How a load value was determined."""

    SLOPE = "slope"
    """Growth of the log over the whole time range."""
    PARTIAL = "partial"
    """Growth of the log over a part of the time range.

    For the mean of a topic, possibly over a part of its partitions.
    """
    HELD = "held"
    """Last measured rate, from before the measurements stopped."""
    SEASONAL = "seasonal"
    """Rate at the same hour of earlier weeks or days."""
    MEAN = "mean"
    """Mean rate of the partitions of the topic."""
    MIRROR = "mirror"
    """Rate of the records and bytes that Headrace has counted."""
    CONFIGURED = "configured"
    """Rate from the settings, without measurements."""


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """Load of one partition, and its origin.

    `messages_per_second`: None if the source does not report it.

    `measured_at_ms`: time of the last measurement (epoch ms), None without measurements.
    """

    bytes_per_second: float
    messages_per_second: float | None = None
    level: LoadLevel = LoadLevel.PARTITION
    rate_source: RateSource = RateSource.MIRROR
    measured_at_ms: int | None = None

    @property
    def is_estimate(self) -> bool:
        """True unless the partition or its topic was measured recently."""
        return self.level is LoadLevel.DEFAULT or self.rate_source is RateSource.SEASONAL

    def age_ms(self, now_ms: int) -> int | None:
        """Return the time since the latest measurement in ms, or None without measurements."""
        return None if self.measured_at_ms is None else max(0, now_ms - self.measured_at_ms)


@dataclass(frozen=True)
class LoadReport:
    """Partition loads of one source cluster, as a provider reports them.

    `measured_at_ms`: time of the last measurement (epoch ms), None without measurements. `notes`: messages
    for operators, for example about stale data. `at_least`: partitions with a backlog, whose loads are lower
    bounds.
    """

    loads: Mapping[TopicPartition, PartitionLoad]
    provider: str
    measured_at_ms: int | None = None
    notes: tuple[str, ...] = ()
    at_least: frozenset[TopicPartition] = frozenset()

    @property
    def measured(self) -> int:
        """Number of partitions with a measured load of their own."""
        return sum(load.level is LoadLevel.PARTITION for load in self.loads.values())

    @property
    def is_blind(self) -> bool:
        """True if the report contains only default loads."""
        return all(load.level is LoadLevel.DEFAULT for load in self.loads.values())


@dataclass(frozen=True, slots=True)
class Freshness:
    """Age of the latest loads of one source cluster.

    `measured_at_ms`: time of the last measurement (epoch ms), None if nothing is measured. `stale_after_ms`:
    age from which the loads are stale. `measured`: number of partitions with a load of their own, None if
    unknown. `behind`: number of measured partitions that may be copied more slowly than records arrive.
    """

    measured_at_ms: int | None
    stale_after_ms: int
    measured: int | None = None
    behind: int = 0


def age_text(milliseconds: int) -> str:
    """Return an age in ms as text. Negative ages, caused by clock skew, count as zero."""
    seconds = max(milliseconds, 0) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


@dataclass(frozen=True, slots=True)
class TaskCapacity:
    """Capacity of one task. The usable capacity is capacity * utilisation_percent // 100.

    Raises InvalidRequest if a capacity is not positive or exceeds `LARGEST_CAPACITY`, or if the percentage is
    not between 1 and 100.
    """

    bytes_per_second: int
    messages_per_second: int | None = None
    utilisation_percent: int = 90

    def __post_init__(self) -> None:
        for unit, number in (("bytes", self.bytes_per_second), ("messages", self.messages_per_second)):
            if number is not None and not 0 < number <= LARGEST_CAPACITY:
                raise InvalidRequest(
                    f"the capacity of a task in {unit} per second is {bounds.shown(number)}; "
                    f"must be above 0 and at most {LARGEST_CAPACITY:.0e}"
                )
        if not 0 < self.utilisation_percent <= 100:
            raise InvalidRequest("the utilisation threshold of a task must be between 1 and 100 percent")

    @property
    def usable_bytes_per_second(self) -> int:
        """Usable capacity in bytes per second."""
        return self.bytes_per_second * self.utilisation_percent // 100

    @property
    def usable_messages_per_second(self) -> int | None:
        """Usable capacity in messages per second."""
        if self.messages_per_second is None:
            return None
        return self.messages_per_second * self.utilisation_percent // 100


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits for the tasks of a datastream. None means unlimited.

    Raises InvalidRequest if a limit is not between 1 and `MOST_TASKS` (partitions: a million), or if the
    minimum exceeds the maximum.
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
        """Return whether tasks with the given partition counts respect the limits."""
        if self.max_tasks is not None and len(sizes) > self.max_tasks:
            return False
        widest = self.max_partitions_per_task
        return (widest is None or max(sizes, default=0) <= widest) and not self.ask_for_more(sizes)

    def ask_for_more(self, sizes: Sequence[int]) -> bool:
        """Return whether fewer tasks than `min_tasks` have partitions, although there are enough
        partitions."""
        return len([size for size in sizes if size]) < min(self.min_tasks, sum(sizes))


def impossible_limits(several: Iterable[TaskLimits]) -> tuple[int, int] | None:
    """Return (minimum, maximum) of the number of shared tasks if they conflict, otherwise None.

    `several`: limits of datastreams that share tasks.
    """
    found = tuple(several)
    least = max((limits.min_tasks for limits in found), default=1)
    most = joint_limits(found).max_tasks
    return (least, most) if most is not None and least > most else None


def joint_limits(several: Iterable[TaskLimits]) -> TaskLimits:
    """Return the limits of shared tasks: the strictest value of each limit. A minimum above the maximum is
    reduced to the maximum."""
    found = tuple(several)
    most = min((limits.max_tasks for limits in found if limits.max_tasks is not None), default=None)
    widest = min(
        (limits.max_partitions_per_task for limits in found if limits.max_partitions_per_task is not None),
        default=None,
    )
    least = max((limits.min_tasks for limits in found), default=1)
    return TaskLimits(least if most is None else min(least, most), most, widest)


def hot_from(usable_bytes_per_second: float) -> float:
    """Return the load in bytes per second at which a partition counts as hot."""
    return HOT_SHARE * usable_bytes_per_second


class LoadSums(NamedTuple):
    """Sums for one hour over the partitions of a group with a known load. Rates are per second.

    `alone`: number of partitions whose load exceeds the usable capacity of a task; each gets its own task.
    The other fields do not include such partitions. `rest_bytes`, `rest_messages`: total rates. `heavy`:
    number of partitions that fill more than half of a task. Unknown message rates count as 0.
    """

    partitions: int
    bytes: float
    alone: int
    rest_bytes: float
    rest_messages: float
    heavy: int
