"""Partition loads for the placement benchmarks: kinds, skew, and a synthetic week."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.loads import PartitionLoads
from mirror.model.load import TaskCapacity
from mirror.model.topics import TopicPartition

Floats = npt.NDArray[np.float64]

KINDS = ("kafka", "nearzero", "lognormal", "zipf1.0", "zipf0.8", "zipf1.4", "bimodal", "uniform")
CAPACITY = TaskCapacity(10 * 2**20, None, 70)
USABLE = CAPACITY.usable_bytes_per_second
_HOTTEST = 0.95
_RECORDING: Final = Path(__file__).parents[2] / "tests" / "data" / "cruise-control" / "truth.jsonl.gz"


def draw(kind: str, partitions: int, tasks: int, seed: int, fill: float = 0.97) -> Floats:
    """Return bytes/s of each partition, in random order: (tasks - 1 + fill) * usable capacity in total.

    No partition exceeds 95 % of a task, so that the number of tasks depends on the packing alone.
    """
    random = np.random.default_rng(seed)
    rates = _shape(kind, partitions, random)
    total = (tasks - 1 + fill) * USABLE
    rates = np.minimum(rates * total / rates.sum(), USABLE * _HOTTEST)
    for _ in range(60):
        free = rates < USABLE * _HOTTEST
        missing = total - rates.sum()
        if missing < 1 or not free.any() or not rates[free].sum():
            break
        rates = np.where(
            free, np.minimum(rates * (1 + missing / rates[free].sum()), USABLE * _HOTTEST), rates
        )
    return random.permutation(rates)


def _shape(kind: str, partitions: int, random: np.random.Generator) -> Floats:
    if kind.startswith("zipf"):
        return np.asarray(np.arange(1, partitions + 1) ** -float(kind[4:]), np.float64)
    if kind == "lognormal":
        return random.lognormal(0, 2, partitions)
    if kind == "bimodal":
        return random.uniform(0.5, 1.5, partitions) * np.where(random.random(partitions) < 0.05, 100, 1)
    if kind == "nearzero":
        return (random.pareto(1.2, partitions) + 0.01) * (random.random(partitions) > 0.7)
    if kind == "kafka":
        topics = max(1, partitions // 20)
        popularity = random.pareto(1.1, topics) + 0.05
        rates = popularity[random.integers(0, topics, partitions)] * random.lognormal(0, 0.5, partitions)
        return rates * (random.random(partitions) > 0.15)
    return random.uniform(0.1, 1, partitions)


def loads_of(rates: Floats, messages: Floats | None = None) -> PartitionLoads:
    """Return the loads in the format of the planner, with 32 partitions per topic."""
    names = tuple(TopicPartition(f"topic-{n // 32:05}", n % 32) for n in range(len(rates)))
    columns = np.zeros((len(rates), 2))
    columns[:, 0] = rates
    if messages is not None:
        columns[:, 1] = messages
    return PartitionLoads(names, columns, np.zeros(len(rates), np.int8))


def drift(rates: Floats, sigma: float, seed: int, fill: float = 0.9) -> Floats:
    """Return later loads: each rate times a lognormal factor, scaled by `fill`."""
    random = np.random.default_rng(seed)
    return np.minimum(rates * random.lognormal(0, sigma, len(rates)) * fill, USABLE * _HOTTEST)


@dataclass(frozen=True)
class Week:
    """Partition loads of a week. `rates`: float64[hours, partitions], bytes per second.

    `born`: the hour in which a partition appears. `topic_of`: int[partitions].
    """

    rates: Floats
    born: npt.NDArray[np.int64]
    topic_of: npt.NDArray[np.int64]


def synthetic_week(
    partitions: int, mean_tasks: float, seed: int, hours: int = 168, swing: float = 0.3
) -> Week:
    """Return heavy-tailed topics with daily swings (each with its phase) and lower load at the weekend.

    Added to this: +-10 % noise on every partition and hour, a spike of 1 to 3 hours on some partition about
    every other hour, 2 % growth over the week, and 5 % of the partitions created during the week.
    """
    random = np.random.default_rng(seed)
    topics = max(1, partitions // 16)
    topic_of = random.integers(0, topics, partitions)
    base = (random.pareto(1.2, topics) + 0.05)[topic_of] * random.lognormal(0, 0.7, partitions)
    base = np.minimum(base * mean_tasks * USABLE / base.sum(), 0.6 * USABLE)
    clock = np.arange(hours)[:, None]
    phase = random.normal(0, 2, topics)[topic_of]
    daily = 1 + swing * np.sin(2 * np.pi * (clock - 9 - phase) / 24)
    weekend = np.where((clock // 24) % 7 >= 5, 0.75, 1.0)
    rates = (
        base * daily * weekend * (1 + 0.02 * clock / hours) * random.uniform(0.9, 1.1, (hours, partitions))
    )
    for start in np.flatnonzero(random.random(hours) < 0.5):
        victim = int(random.integers(0, partitions))
        length = int(random.integers(1, 4))
        rates[start : start + length, victim] *= random.uniform(3, 8)
    born = np.where(random.random(partitions) < 0.05, random.integers(1, hours, partitions), 0)
    return Week(np.where(clock >= born, rates, 0.0), born, topic_of)


def recorded_week(mean_tasks: float, window_seconds: int = 10) -> Week:
    """Return eight uneven minutes of a real cluster, scaled to `mean_tasks`, with one window per hour.

    Uses the log sizes in tests/data/cruise-control: two partitions change their rate by 4 and 300 times, a
    topic is created, another grows.
    """
    with gzip.open(_RECORDING, "rt") as lines:
        found = [entry for entry in map(json.loads, lines) if "log" in entry][::window_seconds]
    names = sorted(
        {(topic, n) for one in found for topic, sizes in one["log"].items() for n in range(len(sizes))}
    )
    position = {name: index for index, name in enumerate(names)}
    sizes = np.full((len(found), len(names)), np.nan)
    for row, entry in enumerate(found):
        for topic, values in entry["log"].items():
            for number, size in enumerate(values):
                sizes[row, position[topic, number]] = size
    seconds = np.diff([entry["t_ms"] for entry in found])[:, None] / 1000
    known = ~np.isnan(sizes[1:])
    rates = np.maximum(np.diff(np.nan_to_num(sizes), axis=0) / seconds, 0) * known
    rates *= mean_tasks * USABLE / rates.sum(axis=1).mean()
    topics = sorted({topic for topic, _ in names})
    return Week(
        np.minimum(rates, USABLE * _HOTTEST),
        known.argmax(axis=0),
        np.array([topics.index(topic) for topic, _ in names]),
    )


def main() -> None:
    """Print the properties of each kind with 10,000 partitions on 200 tasks."""
    print("kind        zero %   median B/s   p99 B/s   largest/usable   share of the heaviest 1 %")
    for kind in KINDS:
        rates = np.sort(draw(kind, 10_000, 200, 1))[::-1]
        zero = 100 * np.mean(rates == 0)
        top = rates[:100].sum() / rates.sum()
        print(
            f"{kind:10} {zero:7.1f} {np.median(rates):12,.0f} {rates[100]:9,.0f} "
            f"{rates[0] / USABLE:14.3f} {100 * top:20.1f} %"
        )
