"""Partitions that lose records when the quota is too small: fair shares compared with deadline first.

Runs an engine between fake brokers in virtual time. Records are produced to every partition continuously, and
retention deletes each record after two minutes, copied or not; a partition that has lost records halts. Also
prints how long before the loss `loses_data` of /v1/datastreams/{name}/lag was true (minimum over
partitions). `BENCH_CASES=skewed,outage` selects cases.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.tables import print_table
from mirror.loggers import set_threshold
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.movement.history import NO_HISTORY, LaneHistory, LaneSample
from monitor.movement.judge import judge_lane
from monitor.movement.states import LaneFacts
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.retained import RetainedTraffic, Stream

_KIB: Final = 1024
_KEPT_SECONDS: Final = 120
_REPORT_SECONDS: Final = 5
_SECONDS: Final = 900


@dataclass(frozen=True, slots=True)
class Case:
    """Streams of one datastream. `backlog`: seconds of records that wait at the start."""

    name: str
    what: str
    streams: list[Stream]
    budget: int
    backlog: int = 0


class Outcome(NamedTuple):
    """For each topic, seconds from the start until records are lost, and until the alarm."""

    lost: dict[str, float]
    alarmed: dict[str, float]


def _streams(count: int, rate: int, kept: int | None = _KEPT_SECONDS, name: str = "t") -> list[Stream]:
    return [Stream(f"{name}{number}", rate * _KIB, kept) for number in range(count)]


def _cases() -> Iterable[Case]:
    alike = _streams(12, 16)
    yield Case("alike", "12 equal partitions, budget 2/3", alike, 128 * _KIB)
    sizes = [4, 4, 4, 4, 8, 8, 8, 16, 16, 32, 48, 64]
    skewed = [Stream(f"t{number}", size * _KIB, _KEPT_SECONDS) for number, size in enumerate(sizes)]
    yield Case("skewed", "12 partitions from 4 to 64 KiB/s, budget 2/3", skewed, sum(sizes) * _KIB * 2 // 3)
    mixed = [*_streams(6, 16), *_streams(6, 16, None, "week")]
    yield Case("mixed", "6 keep 2 min, 6 a week, budget 2/3", mixed, 128 * _KIB)
    budget = sum(sizes) * _KIB * 21 // 20
    yield Case("outage", "4 to 64 KiB/s, 90 s behind, budget 21/20", skewed, budget, 90)
    yield Case("stopped", "12 equal partitions, budget 1/12", alike, 16 * _KIB)


def main() -> None:
    """Print, for each case and both orders, the partitions without loss and the lead time of the alarm."""
    set_threshold("off")
    print(f"retention {_KEPT_SECONDS} s, {_SECONDS} s of virtual time; partitions that lost no record")
    header = ("case", "partitions", "fair shares", "deadline first", "alarm ahead, s: fair", "first")
    print_table(header, _rows(), 44)


def _rows() -> Iterator[tuple[str, ...]]:
    wanted = os.environ.get("BENCH_CASES", "").split(",")
    for case in _cases():
        if wanted == [""] or case.name in wanted:
            fair, first = (_run(case, deadline_first=one) for one in (False, True))
            kept = [len(case.streams) - len(one.lost) for one in (fair, first)]
            numbers = map(str, (len(case.streams), *kept))
            yield (case.what, *numbers, _ahead(fair), _ahead(first))


def _ahead(outcome: Outcome) -> str:
    if not outcome.lost:
        return "-"
    return f"{min(at - outcome.alarmed[name] for name, at in outcome.lost.items()):.0f}"


def _run(case: Case, *, deadline_first: bool) -> Outcome:
    traffic = RetainedTraffic(case.streams)
    fakes = MirroredFakes(script=traffic.run, options={"deadline_first": deadline_first})
    try:
        traffic.begin(fakes, case.backlog)
        began = fakes.clock.monotonic()
        for stream in case.streams:
            fakes.start(stream.name, group="g", policy=CopyPolicy(bytes_per_second=case.budget))
        histories: dict[str, LaneHistory] = {}
        alarmed: dict[str, float] = {}
        while (passed := fakes.clock.monotonic() - began) < _SECONDS:
            fakes.run(_REPORT_SECONDS)
            for name in _losing(fakes, histories):
                alarmed.setdefault(name, passed + _REPORT_SECONDS)
        return Outcome(traffic.lost, alarmed)
    finally:
        fakes.close()


def _losing(fakes: MirroredFakes, histories: dict[str, LaneHistory]) -> Iterable[str]:
    """Yield the topics that are predicted to lose records, from the worker's reports."""
    now = fakes.clock.monotonic()
    metrics = fakes.engine.metrics()
    for metric, place in zip(metrics, fakes.engine.positions(metrics), strict=True):
        if place is None:
            continue
        at = LaneSample(now, place.checkpoint, place.readable_end, place.end, metric.lag_ms, place.log_start)
        each = metric.bytes_copied / metric.records_copied if metric.records_copied else None
        history = histories.get(metric.topic, NO_HISTORY).after(at, None, place.retention, each)
        histories[metric.topic] = history
        if judge_lane(history, LaneFacts(), now).loses_data:
            yield metric.topic
