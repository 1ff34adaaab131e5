"""Rates of a recorded Cruise Control against what was really written: averages, slopes, scaled slopes."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mirror.model.load import RateSource
from mirror.model.topics import TopicPartition
from pinot.loads import PartitionRates
from pinot.tables import Statistic
from pmp.decoding import decode
from pmp.rates import Reading, partition_loads
from pmp.slope import EMPTY, Samples, advance

_FOLDER = Path(__file__).parent.parent / "tests/data/cruise-control"
_LEAST_BYTES_PER_SECOND = 500
_SETTLING_MS = 180_000

Loads: TypeAlias = dict[TopicPartition, float]
Method: TypeAlias = Callable[[Sequence[PartitionRates]], Loads]


def main() -> None:
    """Errors of every method, over windows of one minute and of four."""
    samples, truth = _samples(), _Truth()
    print("relative error of a partition's rate (above 500 B/s) and of a topic's sum")
    print(f"  {'window and method':44} {'rates':>6} {'median':>8} {'p90':>8} {'p99':>8} {'sum, worst':>11}")
    for window_ms in (60_000, 240_000):
        for name, method in _METHODS.items():
            errors, sums = [], []
            for until_ms in _ends(samples, truth, window_ms):
                found = method(list(_rates(samples, until_ms - window_ms, until_ms)))
                one, whole = _errors(found, truth, until_ms, window_ms)
                errors += one
                sums += whole
            quantiles = (f"{np.quantile(errors, q):8.2%}" for q in (0.5, 0.9, 0.99))
            label = f"{window_ms // 1000} s, {name}"
            print(f"  {label:44} {len(errors):6} {' '.join(quantiles)} {max(sums):11.2%}")


def _averages(rates: Sequence[PartitionRates]) -> Loads:
    return {TopicPartition(rate.topic, rate.kafka_partition): rate.sampled for rate in rates}


def _slopes(rates: Sequence[PartitionRates]) -> Loads:
    """As the provider answers."""
    loads = partition_loads(rates, Reading(Statistic.MEAN, settled=False))
    return {partition: load.bytes_per_second for partition, load in loads.items()}


def _scaled(rates: Sequence[PartitionRates]) -> Loads:
    """Slopes that add up to the topic's sampled sum on each broker."""
    loads = partition_loads(rates, Reading(Statistic.MEAN, settled=False))
    sums: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for rate in rates:
        entry = sums[rate.topic, rate.broker]
        entry[0] += rate.sampled
        entry[1] += loads[TopicPartition(rate.topic, rate.kafka_partition)].bytes_per_second
    answer = {}
    for rate in rates:
        partition = TopicPartition(rate.topic, rate.kafka_partition)
        sampled, grown = sums[rate.topic, rate.broker]
        is_slope = loads[partition].rate_source is RateSource.SLOPE and grown > 0
        answer[partition] = loads[partition].bytes_per_second * (sampled / grown if is_slope else 1)
    return answer


_METHODS: dict[str, Method] = {
    "averages as sampled": _averages,
    "slopes, as provided": _slopes,
    "slopes scaled to the topic's sum": _scaled,
}


class _Truth:
    """Bytes that the log of each partition had, at any moment."""

    def __init__(self) -> None:
        points: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for line in _lines("truth.jsonl.gz"):
            for topic, sizes in line.get("log", {}).items():
                for number, size in enumerate(sizes):
                    points[TopicPartition(topic, number)].append((line["t_ms"], size))
        self._points = {key: np.array(values, float) for key, values in points.items()}
        times = np.concatenate([values[:, 0] for values in self._points.values()])
        self.begin_ms, self.end_ms = int(times.min()), int(times.max())

    def rate(self, partition: TopicPartition, since_ms: int, until_ms: int) -> float | None:
        """Bytes per second; None for a partition younger than that."""
        points = self._points.get(partition)
        if points is None or points[0, 0] > since_ms:
            return None
        ends = np.interp([since_ms, until_ms], points[:, 0], points[:, 1])
        return float(ends[1] - ends[0]) * 1000 / (until_ms - since_ms)


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(_FOLDER / name, "rt") as lines:
        yield from map(json.loads, lines)


def _samples() -> list[PartitionRates]:
    """Every sample with its growth, as the job writes it, in order of time."""
    values = pa.array([bytes.fromhex(line["value"]) for line in _lines("samples.jsonl.gz")], pa.binary())
    decoded = decode(values)
    names = [f"{n}/{t}".encode() for n, t in zip(decoded.partition, decoded.topic.to_pylist(), strict=True)]
    given = decoded.metrics
    key = pa.array(names, pa.binary())
    growth, _ = advance(
        EMPTY, Samples(key, decoded.time_ms, decoded.broker, given["size"], given["bytes_in"])
    )
    rows = [
        PartitionRates(
            topic=decoded.topic[n].as_py(),
            kafka_partition=int(decoded.partition[n]),
            samples=1,
            newest_ms=int(decoded.time_ms[n]),
            broker=int(decoded.broker[n]),
            inflow=float(growth.inflow[n]),
            sampled=float(given["bytes_in"][n]),
            messages=None,
            growth_bytes=float(growth.growth_bytes[n]),
            growth_ms=int(growth.growth_ms[n]),
            shrunk=int(growth.shrunk[n]),
            size_bytes=float(given["size"][n]),
        )
        for n in np.flatnonzero(growth.keep)
    ]
    return sorted(rows, key=lambda row: row.newest_ms)


def _rates(samples: Sequence[PartitionRates], since_ms: int, until_ms: int) -> Iterator[PartitionRates]:
    """What Pinot answers for the range behind `since_ms` up to `until_ms`."""
    of: dict[TopicPartition, list[PartitionRates]] = defaultdict(list)
    for sample in samples:
        if since_ms < sample.newest_ms <= until_ms and not sample.topic.startswith("__"):
            of[TopicPartition(sample.topic, sample.kafka_partition)].append(sample)
    for rows in of.values():
        yield rows[-1]._replace(
            broker=max(row.broker for row in rows),
            sampled=sum(row.sampled for row in rows) / len(rows),
            growth_bytes=sum(row.growth_bytes for row in rows),
            growth_ms=sum(row.growth_ms for row in rows),
            shrunk=sum(row.shrunk for row in rows),
        )


def _ends(samples: Sequence[PartitionRates], truth: _Truth, window_ms: int) -> list[int]:
    """Times of samples with a whole window before them, from the third minute on."""
    begin_ms = truth.begin_ms + max(_SETTLING_MS, window_ms + 60_000)
    times = sorted({sample.newest_ms for sample in samples})
    return [time for time in times if begin_ms <= time <= truth.end_ms]


def _errors(found: Loads, truth: _Truth, until_ms: int, window_ms: int) -> tuple[list[float], list[float]]:
    errors = []
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for partition, rate in found.items():
        true = truth.rate(partition, until_ms - window_ms, until_ms)
        if true is None:
            continue
        sums[partition.topic][0] += rate
        sums[partition.topic][1] += true
        if true > _LEAST_BYTES_PER_SECOND:
            errors.append(abs(rate - true) / true)
    return errors, [abs(got - true) / true for got, true in sums.values() if true]
