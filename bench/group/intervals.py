"""Cost of the interval at which consumer groups are synchronised, and the age of the copied positions.

A datastream copies a topic at a steady rate. Some groups at the end of the topic commit every quarter of a
second, the others are idle. For each interval, the script prints the processor time of the instance, the
growth of the progress topic, and the age of a position at the destination: the time since the group has
committed the first position beyond it. In the environment:

    BENCH_INTERVALS=0,5,1,0.5,0.2,0.1    seconds; 0 for a datastream without groups
    BENCH_GROUPS=100                     groups
    BENCH_MOVING=10                      groups that commit
    BENCH_RATE=1000                      records/s
    BENCH_SECONDS=20                     time for each interval
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psutil
from confluent_kafka import Consumer, TopicPartition

from bench.group.rig.traffic import Traffic
from bench.mirror.rig.clusters import Pair, Topics, clusters
from tests.kafka_data import commit_positions
from tests.running import RunningInstance

_INTERVALS: Final = [
    float(text) for text in os.environ.get("BENCH_INTERVALS", "0,5,1,0.5,0.2,0.1").split(",")
]
_GROUPS: Final = int(os.environ.get("BENCH_GROUPS", "100"))
_MOVING: Final = int(os.environ.get("BENCH_MOVING", "10"))
_RATE: Final = float(os.environ.get("BENCH_RATE", "1000"))
_SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "20"))
_PARTITIONS: Final = 8
_TOPIC: Final = "bench-intervals"
_PROGRESS: Final = "headrace-progress"
_COMMIT_SECONDS: Final = 0.25
_SAMPLE_SECONDS: Final = 0.05
_SETTLE_SECONDS: Final = 8.0
_REQUEST_SECONDS: Final = 30.0


class Committer:
    """Commits positions of groups at the end of the topic, on a separate thread. `commits`: monotonic time
    and total of the positions of each commit of the first group."""

    def __init__(self, address: str, traffic: Traffic) -> None:
        self.commits: list[tuple[float, int]] = []
        self._traffic = traffic
        self._groups = [consumer_of(address, f"group-{number}") for number in range(_MOVING)]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Commit positions within the context."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._run, args=(stopping,), name="committer")
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            for consumer in self._groups:
                consumer.close()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(_COMMIT_SECONDS):
            ends = self._traffic.ends
            places = [TopicPartition(_TOPIC, number, end) for number, end in enumerate(ends)]
            for consumer in self._groups:
                consumer.commit(offsets=places, asynchronous=False)
            self.commits.append((time.monotonic(), sum(ends)))


def consumer_of(address: str, group: str) -> Consumer:
    """Return a consumer that joins no group."""
    return Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})


def main() -> None:
    """Print the table of intervals."""
    with clusters() as pair:
        Topics(pair.source).create(_TOPIC, _PARTITIONS)
        for number in range(_GROUPS):
            commit_positions(pair.source.address, f"group-{number}", {(_TOPIC, n): 1 for n in range(8)})
        traffic = Traffic(pair.source.address, _TOPIC, _PARTITIONS, digits=100)
        committer = Committer(pair.source.address, traffic)
        environment = {
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
            "HEADRACE_COORDINATION__CLUSTER": "destination",
            "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        }
        instance = RunningInstance("one", pair.folder, environment)
        try:
            instance.start()
            definition = {
                "name": "orders",
                "source": {"cluster": "source", "topics": _TOPIC},
                "destination": {"cluster": "destination"},
                "metadata": {"owner": "bench"},
            }
            instance.rest.post("/v1/datastreams", definition)
            with traffic.running(_RATE), committer.running():
                print(
                    f"{_GROUPS} groups of {_PARTITIONS} partitions, {_MOVING} of them at the end and"
                    f" committing every {_COMMIT_SECONDS} s; {_RATE:g} records/s"
                )
                print(
                    f"  {'interval, s':>11}{'control CPU':>13}{'worker CPU':>12}{'progress KB/s':>15}"
                    f"{'age p50, s':>12}{'max, s':>8}"
                )
                for interval in _INTERVALS:
                    print(_row(pair, instance, committer, interval), flush=True)
        finally:
            instance.stop()


def _row(pair: Pair, instance: RunningInstance, committer: Committer, interval: float) -> str:
    groups = {"include": "group-.*" if interval else None, "interval_seconds": interval or 5}
    instance.rest.patch("/v1/datastreams/orders", {"groups": groups}, "*")
    time.sleep(_SETTLE_SECONDS)
    control = psutil.Process(instance.pid)
    workers = [child for child in control.children() if "headrace.worker" in child.cmdline()]
    before = _cpu([control]), _cpu(workers), _progress_bytes(pair)
    began = time.monotonic()
    ages = _ages(pair, committer, began + _SECONDS) if interval else []
    time.sleep(max(began + _SECONDS - time.monotonic(), 0.0))
    seconds = time.monotonic() - began
    after = _cpu([control]), _cpu(workers), _progress_bytes(pair)
    own, theirs, written = ((late - early) / seconds for early, late in zip(before, after, strict=True))
    name = f"{interval:g}" if interval else "no groups"
    row = f"  {name:>11}{own:>12.1%} {theirs:>11.1%} {written / 1000:>14.1f}"
    return f"{row}{statistics.median(ages):>12.2f}{max(ages):>8.2f}" if ages else row


def _ages(pair: Pair, committer: Committer, until: float) -> list[float]:
    """Return samples of the age of the first group's position at the destination, in seconds."""
    places = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
    consumer = consumer_of(pair.target.address, "group-0")
    ages = []
    try:
        while (now := time.monotonic()) < until:
            found = consumer.committed(places, timeout=_REQUEST_SECONDS)
            position = sum(max(place.offset, 0) for place in found)
            commits = committer.commits[-200:]
            index = bisect_right([total for _, total in commits], position)
            ages.append(max(now - commits[index][0], 0.0) if index < len(commits) else 0.0)
            time.sleep(_SAMPLE_SECONDS)
    finally:
        consumer.close()
    return ages


def _cpu(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


def _progress_bytes(pair: Pair) -> int:
    """Return the bytes of the progress topic's segments."""
    folders = [node.folder for node in pair.target.nodes]
    found = (log for folder in folders for log in folder.rglob(f"{_PROGRESS}-*/*.log"))
    return sum(log.stat().st_size for log in found)
