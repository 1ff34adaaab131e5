"""What copying costs of CPU time by batches, parts of answers, bytes and seconds: a fit over many loads.

An engine copies four kinds of batches at four rates each, and then a backlog. The prices are those with the
least squared relative error over all seconds (not negative). Beside them: what the same prices leave of the
CPU time of each rate as spare, and how far bytes over the rest are from those of the backlog.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls  # type: ignore[import-untyped]

from bench.mirror.rig.clusters import Pair, Topics, chosen, clusters
from bench.mirror.rig.data import GrowingTopic
from bench.placement.capacity import WORKLOADS
from bench.placement.rig.counting_engine import COUNTED
from headrace.process.machine_code import worker_command
from mirror.lane.counters import LaneCounters
from mirror.replication.reports.copy_costs import cost_of, spare_each_second
from mirror.wording import counted

_SHARES: Final = (0.05, 0.2, 0.6, 1.5)
"""Of the rate that `placement_capacity` learns from."""
_SECONDS: Final = 15
_BACKLOG_BYTES: Final = 1_200_000_000
_PRICED: Final = ("fetched_parts", "batches", "source_batches", "bytes_copied", "merged_bytes", "seconds")

Line = Mapping[str, float]


def main() -> None:
    """Measure, fit, and compare."""
    found = {name: _lines_of(name) for name in chosen(*WORKLOADS)}
    lines = [line for rates in found.values() for some in rates.values() for line in some]
    prices = _fit(lines)
    print(f"prices in us, from {counted(len(lines), 'second')}:")
    print("  " + ", ".join(f"{name} {price:.5g}" for name, price in zip(_PRICED, prices, strict=True)))
    for name, rates in found.items():
        whole = _needed(rates["a backlog"])
        for rate, some in rates.items():
            print(f"{name}, {rate}: {_compared(some, whole)}")


def _lines_of(name: str) -> dict[str, list[Line]]:
    """By rate, a line for each second in which something was copied, without the first and the last."""
    workload, found = WORKLOADS[name], {}
    with clusters() as pair, GrowingTopic(pair.source, workload.shape) as topic:
        Topics(pair.target).create(topic.name, workload.shape.partitions)
        with _engine(pair, topic) as lines:
            for share in _SHARES:
                rate = workload.batches_per_second * share
                began = len(lines)
                _grow(topic, rate)
                found[f"{rate:,.0f} batches/s"] = lines[began + 3 :]
        written = 0
        while written < _BACKLOG_BYTES:
            written += topic.add(50)
        with _engine(pair, topic) as lines:
            _await(lines, written)
            found["a backlog"] = [one for one in lines if one["batches"]][1:-1]
    return {rate: [one for one in some if one["batches"]] for rate, some in found.items()}


@contextmanager
def _engine(pair: Pair, topic: GrowingTopic) -> Iterator[list[Line]]:
    """An engine that copies; what it prints is added to the list."""
    arguments = (pair.source.address, pair.target.address, topic.name, str(topic.shape.partitions))
    command = worker_command("bench.placement.rig.counting_engine", *arguments)
    lines: list[Line] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        print(f"{topic.shape.name}: {running.stdout.readline().strip()}", flush=True)
        output = running.stdout
        reader = threading.Thread(target=lambda: lines.extend(json.loads(line) for line in output))
        reader.start()
        try:
            yield lines
        finally:
            running.stdin.close()
            reader.join()


def _grow(topic: GrowingTopic, batches_per_second: float) -> None:
    """Write at an even pace."""
    each = topic.shape.partitions
    turns = max(round(batches_per_second * 0.1 / each), 1)
    step = turns * each / batches_per_second
    began = due = time.monotonic()
    while time.monotonic() - began < _SECONDS:
        topic.add(turns)
        due = max(due + step, time.monotonic() - 1.0)
        time.sleep(max(due - time.monotonic(), 0.0))


def _await(lines: Sequence[Line], wanted: int) -> None:
    end = time.monotonic() + 120
    while sum(one["bytes_copied"] for one in [*lines]) < 0.99 * wanted:
        assert time.monotonic() < end, "the backlog was not copied"
        time.sleep(0.2)


def _fit(lines: Sequence[Line]) -> NDArray[Any]:
    counts = np.array([[line[name] for name in _PRICED] for line in lines], dtype=float)
    spent = np.array([line["cpu_us"] for line in lines])
    prices, _ = nnls(counts / spent[:, None], np.ones(len(lines)))
    return np.asarray(prices)


def _needed(lines: Sequence[Line]) -> float:
    """Bytes per second of CPU time that is not spare."""
    left = 0.0
    for line in lines:
        done = LaneCounters()
        for name in COUNTED:
            setattr(done, name, line[name])
        cost, each = cost_of(done), spare_each_second(line["seconds"])
        left += line["cpu_us"] * (1 - (cost.spare_us + each) / (cost.cpu_us + each))
    return sum(line["bytes_copied"] for line in lines) / left * 1e6


def _compared(lines: Sequence[Line], whole: float) -> str:
    copied, spent = (sum(line[name] for line in lines) for name in ("bytes_copied", "cpu_us"))
    seconds = sum(line["seconds"] for line in lines)
    plain, needed = copied / spent * 1e6, _needed(lines)
    return (
        f"{spent / 1e6 / seconds:.0%} of a core, {plain / 1e6:,.0f} MB/s a core as measured,"
        f" {needed / 1e6:,.0f} without what is spare: {needed / whole - 1:+.0%}"
    )
