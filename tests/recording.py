"""Recording of a real Cruise Control: its samples, the log sizes, and replays with a broker failure.

A replay keeps the recorded sizes except for the effects of the failure: partitions only on the failed broker
stop growing and have no samples; the data buffered by their producers arrives in a burst after the return, or
never. Topics with two replicas are led by the other broker from the next round, after a stall of a few
seconds, and return to the failed one later. Partitions of the living broker may get a third broker as leader
during the failure; its logs have other sizes for the data written before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.partitions.pages import Grain
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.job.growth import EMPTY, Samples, advance
from pmp.loads.rates import RateOptions, partition_loads
from pmp.loads.rhythm import marked, rhythm_of
from pmp.samples.decoder import decode
from pmp.samples.sample import Sample, encode
from tests.metrics_data import recorded_samples, recorded_truth

Points: TypeAlias = npt.NDArray[np.float64]
LEAST_BYTES_PER_SECOND: Final = 500
"""Lowest rate to compare; below it a single record is too large a share."""

_REPLICATED: Final = "cc_rf2"
_STALL_MS: Final = 4_000
_BURST_MS: Final = 5_000
_BACK_HOME_MS: Final = 30_000
_ROUND_MS: Final = 10_000
_STEPS_IN_A_MINUTE: Final = 60_000 // _ROUND_MS
_THIRD: Final = 3
_MORE: Final = 0.15
"""Share by which the log on the third broker is larger or smaller."""


@dataclass(frozen=True)
class Death:
    """Failure and return of a broker, in ms since the start of the truth.

    `factor`: multiple of the recorded rates. `buffered`: whether producers buffer data during the failure.
    `moved`: topic whose partitions on the living broker get another leader halfway through.
    """

    broker: int
    dies_ms: int
    returns_ms: int
    factor: float = 1.0
    buffered: bool = False
    moved: str = ""


DEATHS: Final[Mapping[str, Death]] = {
    "an early death, 70 s, what could not be written is lost": Death(1, 150_000, 220_000),
    "a late death, 95 s, triple rates, all of it comes in a burst": Death(2, 285_000, 380_000, 3.0, True),
    "a short death, 40 s, lost, leaders of the living broker move": Death(
        2, 110_000, 150_000, moved="cc.dotted.topic"
    ),
    "a death of 110 s through a change of rates, in a burst": Death(1, 300_000, 410_000, buffered=True),
}


class Truth:
    """Log sizes of each partition at any time (epoch ms)."""

    def __init__(self) -> None:
        points: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for line in recorded_truth():
            for topic, sizes in line.get("log", {}).items():
                for number, size in enumerate(sizes):
                    points[TopicPartition(topic, number)].append((line["t_ms"], size))
        self.points: dict[TopicPartition, Points] = {
            key: np.array(values, float) for key, values in points.items()
        }
        times = np.concatenate([values[:, 0] for values in self.points.values()])
        self.begin_ms, self.end_ms = int(times.min()), int(times.max())

    def size(self, partition: TopicPartition, at_ms: float) -> float:
        """Return the bytes in the log."""
        times, sizes = self.points[partition].T
        return float(np.interp(at_ms, times, sizes))

    def rate(self, partition: TopicPartition, since_ms: int, until_ms: int) -> float | None:
        """Return bytes per second, or None for a partition created later."""
        points = self.points.get(partition)
        if points is None or points[0, 0] > since_ms:
            return None
        grown = self.size(partition, until_ms) - self.size(partition, since_ms)
        return grown * 1000 / (until_ms - since_ms)

    def p95(self, partition: TopicPartition, since_ms: int, until_ms: int) -> float | None:
        """Return the p95 of the rates of all rounds, or None for a partition created later."""
        moments = range(until_ms, since_ms, -_ROUND_MS)
        rates = [self.rate(partition, moment - _ROUND_MS, moment) for moment in moments]
        return None if None in rates else p95([rate for rate in rates if rate is not None])

    def change(self, partition: TopicPartition, becomes: Callable[[float], float]) -> None:
        """Replace the size at every time."""
        before = self.points[partition]
        times = np.arange(before[0, 0], before[-1, 0], 500.0)
        self.points[partition] = np.array([[time, becomes(time)] for time in times])


@dataclass(frozen=True)
class Recording:
    """Samples in order of time, and the truth."""

    samples: tuple[Sample, ...]
    truth: Truth

    @property
    def rounds(self) -> list[int]:
        """Times of the rounds with a minute and a half of truth before them."""
        times = sorted({sample.time_ms for sample in self.samples})
        return [time for time in times if self.truth.begin_ms + 90_000 <= time <= self.truth.end_ms]


def recording() -> Recording:
    """Return the original recording."""
    return Recording(tuple(_recorded()), Truth())


def replay(death: Death) -> Recording:
    """Return the recording as it would have been with the failure."""
    was, truth = Truth(), Truth()
    dies, back = (was.begin_ms + moment for moment in (death.dies_ms, death.returns_ms))
    halfway = (dies + back) // 2
    homes = {TopicPartition(one.topic, one.partition): one.broker for one in _recorded()}
    for partition in truth.points:
        hit = homes.get(partition) == death.broker
        until = dies + _STALL_MS if partition.topic == _REPLICATED else back
        truth.change(partition, _Sizes(was, partition, death, (dies, until) if hit else None))
    samples = []
    for one in _recorded():
        partition = TopicPartition(one.topic, one.partition)
        broker = one.broker
        if broker == death.broker and dies < one.time_ms:
            if partition.topic != _REPLICATED and one.time_ms < back:
                continue
            if partition.topic == _REPLICATED and one.time_ms < back + _BACK_HOME_MS:
                broker = 3 - death.broker
        size, rate = one.size_bytes * death.factor, one.bytes_in_per_second * death.factor
        if partition in truth.points:
            size += truth.size(partition, one.time_ms) - death.factor * was.size(partition, one.time_ms)
        if partition.topic == death.moved and broker != death.broker and halfway < one.time_ms:
            broker = _THIRD
            held = death.factor * was.size(partition, halfway)
            size += held * (_MORE if one.partition % 2 else -_MORE)
        changed = replace(one, broker=broker, size_bytes=max(0.0, size), bytes_in_per_second=rate)
        samples.append(changed)
    return Recording(tuple(samples), truth)


@dataclass(frozen=True)
class _Sizes:
    """Log size at any time, with a pause without writes."""

    was: Truth
    partition: TopicPartition
    death: Death
    pause: tuple[int, int] | None

    def __call__(self, at_ms: float) -> float:
        return self.death.factor * self._recorded(at_ms)

    def _recorded(self, at_ms: float) -> float:
        def size(moment: float) -> float:
            return self.was.size(self.partition, moment)

        if self.pause is None or at_ms <= self.pause[0]:
            return size(at_ms)
        dies, back = self.pause
        if at_ms <= back:
            return size(dies)
        if not self.death.buffered and self.partition.topic != _REPLICATED:
            return size(at_ms) - (size(back) - size(dies))
        end = back + _BURST_MS
        if at_ms >= end:
            return size(at_ms)
        return size(dies) + (size(end) - size(dies)) * (at_ms - back) / _BURST_MS


def values_of(recorded: Recording) -> list[bytes]:
    """Return the samples as Cruise Control writes them."""
    return [encode(sample) for sample in recorded.samples]


def _recorded() -> Iterator[Sample]:
    """Yield every recorded sample, in order of time."""
    lines = sorted(recorded_samples(), key=lambda line: int(line["timestamp"]))
    decoded = decode(pa.array([bytes.fromhex(line["value"]) for line in lines], pa.binary()))
    numbers = decoded.metrics
    for n, topic in enumerate(decoded.topic.to_pylist()):
        yield Sample(
            topic=topic,
            partition=int(decoded.partition[n]),
            broker=int(decoded.broker[n]),
            time_ms=int(decoded.time_ms[n]),
            bytes_in_per_second=float(numbers["bytes_in"][n]),
            bytes_out_per_second=float(numbers["bytes_out"][n]),
            size_bytes=float(numbers["size"][n]),
            messages_in_per_second=float(numbers["messages_in"][n]),
        )


def sampled(recorded: Recording) -> list[PartitionRates]:
    """Return every sample with its growth as the job writes it, in order of time."""
    kept = [one for one in recorded.samples if not one.topic.startswith("__")]
    names = [f"{one.partition}/{one.topic}".encode() for one in kept]
    columns = (
        np.array([getattr(one, name) for one in kept])
        for name in ("time_ms", "broker", "size_bytes", "bytes_in_per_second")
    )
    growth, _ = advance(EMPTY, Samples(pa.array(names, pa.binary()), *columns))
    return [
        PartitionRates(
            topic=one.topic,
            kafka_partition=one.partition,
            samples=1,
            newest_ms=one.time_ms,
            oldest_ms=one.time_ms,
            begin_ms=one.time_ms - int(growth.growth_ms[n]),
            broker=one.broker,
            inflow=float(growth.inflow[n]),
            sampled=one.bytes_in_per_second,
            messages=None,
            growth_bytes=float(growth.growth_bytes[n]),
            growth_ms=int(growth.growth_ms[n]),
            longest_ms=int(growth.growth_ms[n]),
            shrunk=int(growth.shrunk[n]),
            size_bytes=one.size_bytes,
        )
        for n, one in enumerate(kept)
        if growth.keep[n]
    ]


def rates_over(samples: Sequence[PartitionRates], when: TimeRange) -> list[PartitionRates]:
    """Return the rates that Pinot returns for the range."""
    of: dict[TopicPartition, list[PartitionRates]] = defaultdict(list)
    for one in samples:
        if when.since_ms <= one.newest_ms < when.until_ms:
            of[TopicPartition(one.topic, one.kafka_partition)].append(_clipped(one, when.since_ms))
    return [
        rows[-1]._replace(
            samples=len(rows),
            oldest_ms=rows[0].oldest_ms,
            begin_ms=min(row.begin_ms for row in rows),
            inflow=p95([row.inflow for row in rows]),
            sampled=sum(row.sampled for row in rows) / len(rows),
            growth_bytes=sum(row.growth_bytes for row in rows),
            growth_ms=sum(row.growth_ms for row in rows),
            longest_ms=max(row.growth_ms for row in rows),
            shrunk=sum(row.shrunk for row in rows),
        )
        for rows in of.values()
    ]


def _clipped(one: PartitionRates, since_ms: int) -> PartitionRates:
    if one.begin_ms >= since_ms:
        return one
    inside = one.newest_ms - since_ms
    return one._replace(growth_bytes=one.growth_bytes * inside / one.growth_ms, growth_ms=inside)


def provided(
    samples: Sequence[PartitionRates], when: TimeRange, statistic: Statistic = Statistic.MEAN
) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads that the provider returns for the range: mean or p95."""
    rates = rates_over(samples, when)
    loads = partition_loads(rates, RateOptions(statistic, settled=False))
    return marked(loads, rates, rhythm_of(rates, when, Grain.SAMPLES), statistic)


@dataclass(frozen=True)
class Finding:
    """One load beside the truth, in bytes per second; `error` is relative to the truth."""

    at_ms: int
    partition: TopicPartition
    load: PartitionLoad
    truth: float

    @property
    def error(self) -> float:
        if self.truth <= 0:
            return float("inf") if self.load.bytes_per_second > 0 else 0.0
        return abs(self.load.bytes_per_second - self.truth) / self.truth


def findings(
    recorded: Recording,
    ask: Callable[[TimeRange], Mapping[TopicPartition, Any]],
    window_ms: int,
    statistic: Statistic = Statistic.MEAN,
) -> Iterator[Finding]:
    """Yield every comparable load of every round beside the truth of its window."""
    truth_of = recorded.truth.rate if statistic is Statistic.MEAN else recorded.truth.p95
    least = LEAST_BYTES_PER_SECOND * (1 if statistic is Statistic.MEAN else _STEPS_IN_A_MINUTE)
    for at_ms in recorded.rounds:
        for partition, load in sorted(ask(TimeRange.up_to(at_ms, window_ms)).items()):
            truth = truth_of(partition, at_ms - window_ms, at_ms)
            if truth is not None and max(truth, load.bytes_per_second) > least:
                yield Finding(at_ms, partition, load, truth)


def p95(values: Sequence[float]) -> float:
    """Return the p95 as Pinot computes it: an existing value, without interpolation."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]
