"""Cost of one measurement by the sampler: time, and CPU of broker and sampler, by number of partitions."""

from __future__ import annotations

import time
from contextlib import closing

import psutil

from bench.pmp.rig.metrics_load import Servers, make_topics, servers
from mirror.adapters.system_clock import SystemClock
from pmp.adapters.cluster_probe import KafkaClusterProbe
from pmp.adapters.sample_topic import SampleTopic
from pmp.sampler import Sampler

_PARTITIONS_OF_TOPIC = 100
_ROUNDS = 20


def main() -> None:
    """Measure with an increasing number of partitions, all on one broker."""
    with servers() as made:
        print(
            "a measurement of one broker              partitions   seconds   broker CPU ms   sampler CPU ms"
        )
        there = 0
        for topics in (5, 10, 35):
            names = [f"sampled-{there + number}" for number in range(topics)]
            make_topics(made, *((name, _PARTITIONS_OF_TOPIC) for name in names))
            there += topics
            measure(made)


def measure(made: Servers) -> None:
    """Measure several times; the samples are written and acknowledged."""
    broker, ourselves = psutil.Process(made.broker.nodes[0].pid), psutil.Process()
    probe, sink = KafkaClusterProbe(made.cluster, SystemClock()), SampleTopic(made.cluster, "__samples", 4)
    with closing(probe), closing(sink):
        sampler = Sampler("bench", probe, sink, interval_seconds=1)
        for _ in range(3):
            samples = sampler.round()
        before = _used(broker), _used(ourselves)
        began = time.perf_counter()
        for _ in range(_ROUNDS):
            samples = sampler.round()
        seconds = (time.perf_counter() - began) / _ROUNDS
        costs = [
            (_used(process) - earlier) * 1000 / _ROUNDS
            for process, earlier in zip((broker, ourselves), before, strict=True)
        ]
    print(f"  {'':36} {samples:12,} {seconds:9.3f} {costs[0]:15.0f} {costs[1]:16.0f}", flush=True)


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
