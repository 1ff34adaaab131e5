"""Learned capacity of a task compared with the sustained throughput of a worker, for four kinds of
batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import httpx

from bench.coordination.rig.service import started
from bench.mirror.rig.clusters import chosen
from bench.mirror.rig.data import GrowingTopic, Shape
from mirror.protocol.batches.compression import Codec
from stack.process.wait import wait_until
from tests.running import RunningInstance

_PARTITIONS: Final = 16
_STEP_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 150.0
_SATURATED_SECONDS: Final = 5.0
_MOST_BACKLOG: Final = 1_500_000_000
_SETTINGS: Final = {
    "HEADRACE_MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
    "HEADRACE_MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "1",
}


@dataclass(frozen=True)
class Workload:
    """Shape of batches, and the rate (batches per second, far below the throughput of a core) at which their
    cost is learned."""

    shape: Shape
    batches_per_second: int


WORKLOADS: Final = {
    "none": Workload(Shape("none", Codec.NONE, 100, 0, _PARTITIONS), 600),
    "zstd": Workload(Shape("zstd", Codec.ZSTD, 100, 0, _PARTITIONS), 2_000),
    "ten": Workload(Shape("ten", Codec.NONE, 10, 0, _PARTITIONS), 4_000),
    "one": Workload(Shape("one", Codec.NONE, 1, 0, _PARTITIONS), 12_000),
}


def main() -> None:
    """Learn the capacity from a partial load, then copy a backlog as fast as one worker can."""
    for name in chosen(*WORKLOADS):
        with ExitStack() as stack:
            _measure(name, WORKLOADS[name], stack)


def _measure(name: str, workload: Workload, stack: ExitStack) -> None:
    site = started(stack, ("one",), _SETTINGS)
    instance = site.instances["one"]
    topic = stack.enter_context(GrowingTopic(site.pair.source, workload.shape))
    instance.rest.post(
        "/v1/datastreams",
        {
            "name": name,
            "owner": "bench",
            "source": {"cluster": "source", "topics": topic.name},
            "destination": {"cluster": "destination"},
        },
    )
    began, before = time.monotonic(), _spent(instance)
    capacity = _learned(instance, name, topic, workload.batches_per_second)
    seconds, after = time.monotonic() - began, _spent(instance)
    busy = (after[1] - before[1]) / seconds
    sustained, per_core = _sustained(instance, name, topic, capacity["learned_bytes_per_second"])
    learned, low, high = (_mb(capacity[key]) for key in ("learned_bytes_per_second", "low", "high"))
    print(
        f"{name}: learned {learned} MB/s ({low} to {high}) a core from {capacity['observations']} intervals"
        f" at {busy:.0%} of a core, {capacity['bytes_per_batch']:,.0f} bytes a batch; then sustained"
        f" {_mb(sustained)} MB/s, {_mb(per_core)} MB/s a core:"
        f" wrong by {capacity['learned_bytes_per_second'] / per_core - 1:+.0%}",
        flush=True,
    )


def _mb(rate: float) -> str:
    return f"{rate / 1e6:,.1f}"


def _learned(
    instance: RunningInstance, name: str, topic: GrowingTopic, batches_per_second: int
) -> dict[str, Any]:
    """Return the learned capacity of the datastream while the topic grows at a steady rate."""
    rounds = max(round(batches_per_second * _STEP_SECONDS / _PARTITIONS), 1)
    step = rounds * _PARTITIONS / batches_per_second
    began = requested = due = time.monotonic()
    while time.monotonic() - began < _LONGEST_SECONDS:
        topic.add(rounds)
        due = max(due + step, time.monotonic() - 1.0)
        time.sleep(max(due - time.monotonic(), 0.0))
        if time.monotonic() - requested >= 10:
            requested = time.monotonic()
            found = _capacity(instance, name)
            if found is not None and found["origin"] == "learned":
                return found
    raise AssertionError(f"no capacity learned for {name}: {_capacity(instance, name)}")


def _capacity(instance: RunningInstance, name: str) -> dict[str, Any] | None:
    """Return the task capacity in a new plan."""
    instance.rest.post("/v1/rebalance", {"datastream": name})
    groups = instance.rest.get("/v1/plan", tasks="false")["groups"]
    return next((group["capacity"] for group in groups if group["datastream"] == name), None)


def _sustained(
    instance: RunningInstance, name: str, topic: GrowingTopic, capacity: int
) -> tuple[float, float]:
    """Return the bytes per second, and per CPU second, while a backlog is copied."""
    rest, path = instance.rest, f"/v1/datastreams/{name}"
    rest.post(f"{path}/pause", {"reason": "building a backlog"})
    wait_until(lambda: rest.get(path)["status"] == "PAUSED", 60, "the datastream is paused")
    wanted = min(capacity * _SATURATED_SECONDS, _MOST_BACKLOG)
    written = 0
    while written < wanted:
        written += topic.add(50)
    before = _spent(instance)[0]
    rest.post(f"{path}/resume", {})
    samples = list(_samples(instance, before + 0.98 * written))
    pairs = [
        (later[0] - sooner[0], later[1] - sooner[1], later[2] - sooner[2])
        for sooner, later in pairwise(samples)
        if later[0] > sooner[0]
    ]
    full = pairs[1:-1] or pairs  # the first and the last interval are only partly spent copying
    copied, cpu, seconds = (sum(values) for values in zip(*full, strict=True))
    return copied / seconds, copied / cpu


def _samples(instance: RunningInstance, until: float) -> Iterator[tuple[float, float, float]]:
    """Yield bytes and CPU seconds so far with their time, on each change."""
    last = None
    end = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < end:
        copied, cpu = _spent(instance)
        if copied != last:
            last = copied
            yield copied, cpu, time.monotonic()
        if copied >= until:
            return
        time.sleep(0.05)
    raise AssertionError("the backlog was not copied")


def _spent(instance: RunningInstance) -> tuple[float, float]:
    """Return the bytes copied and the CPU seconds used since the instance started."""
    sums = {"headrace_bytes_total": 0.0, "headrace_cpu_seconds_total": 0.0}
    for line in httpx.get(f"http://{instance.address}/metrics", timeout=30.0).text.splitlines():
        name = line.partition("{")[0]
        if name in sums:
            sums[name] += float(line.rpartition(" ")[2])
    return sums["headrace_bytes_total"], sums["headrace_cpu_seconds_total"]
