"""An example of a package with plug-ins of Headrace: docs/plug-ins.md explains it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import headrace  # noqa: F401 - makes `mirror` of an installed Headrace importable
from mirror.errors import ConfigError, LoadUnavailable
from mirror.model.identifiers import ClusterRef, TaskName, task_name
from mirror.model.load import Freshness, LoadReport, PartitionLoad
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition

WORDS = "not a function"


@dataclass(frozen=True)
class SteadyLoads:
    """Every partition of the topics of one cluster carries the same."""

    cluster: ClusterRef
    topics: frozenset[str]
    bytes_per_second: float

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """What is not known is left out."""
        if cluster != self.cluster:
            raise LoadUnavailable(f"nothing is known of {cluster}")
        now_ms = int(time.time() * 1000)
        load = PartitionLoad(self.bytes_per_second, measured_at_ms=now_ms)
        return LoadReport({one: load for one in partitions if one.topic in self.topics}, "steady", now_ms)

    def freshness(self, cluster: ClusterRef) -> Freshness:
        """Optional: without it nobody watches whether loads become stale."""
        if cluster != self.cluster:
            raise LoadUnavailable(f"nothing is known of {cluster}")
        return Freshness(int(time.time() * 1000), 60_000)


def steady_loads(options: Mapping[str, str]) -> SteadyLoads:
    """Raises ConfigError, which names what is wrong."""
    try:
        rate = float(options["bytes_per_second"])
        return SteadyLoads(ClusterRef(options["cluster"]), frozenset(options["topics"].split()), rate)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"steady cannot use its options: {error}") from error


@dataclass(frozen=True)
class OneEach:
    """Each partition has a task, as far as the limits and its own option allow."""

    most: int | None = None

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """By number, so that the same question has the same answer, and what is placed stays."""
        count = len(request.partitions)
        most = min(count, request.limits.max_tasks or count, self.most or count)
        tasks: dict[TaskName, set[TopicPartition]] = {
            task_name(request.group, number): set() for number in range(most)
        }
        for partition in request.partitions:
            home = request.current.get(partition)
            free = min(tasks, key=lambda name: (len(tasks[name]), name))
            tasks[home if home in tasks and not request.full else free].add(partition)
        carried = {
            name: sum(request.loads[one].bytes_per_second for one in held if one in request.loads)
            for name, held in tasks.items()
        }
        return GroupPlan(
            {name: frozenset(held) for name, held in tasks.items()}, carried, most, ("a task for each",)
        )


def one_each(options: Mapping[str, str]) -> OneEach:
    """`most`: tasks of a group, any number without it. Raises ConfigError."""
    try:
        return OneEach(int(options["most"]) if "most" in options else None)
    except ValueError as error:
        raise ConfigError(f"one-each cannot use its options: {error}") from error


def no_provider(_: Mapping[str, str]) -> object:
    """Of a wrong type."""
    return object()


def raises(_: Mapping[str, str]) -> object:
    """It cannot be made."""
    raise RuntimeError("no route to host")


def exits(_: Mapping[str, str]) -> object:
    """It ends the process."""
    raise SystemExit(3)


def interrupts(_: Mapping[str, str]) -> object:
    """As if somebody had pressed Ctrl+C."""
    raise KeyboardInterrupt
