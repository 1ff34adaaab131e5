"""Clusters that one driver of the Spark job can serve: start-up, samples of one interval, memory."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil
from prometheus_client import generate_latest

from bench.pmp.rig.metrics_load import CLUSTER, Servers, make_topics, rounds, servers, spark, write
from mirror.adapters.system_clock import SystemClock
from pmp.job.job_metrics import JobMetrics
from pmp.job.service import PmpService
from pmp.job.streams import Configuration
from pmp.settings import SampledCluster

_COUNTS = (10, 50, 100)
_PARTITIONS = 200
_PATIENCE_SECONDS = 3600


def main(counts: Sequence[int] = _COUNTS) -> None:
    """Run one driver after the other with more clusters each; every cluster has 200 partitions."""
    print(f"{_PARTITIONS} partitions a cluster, trigger interval 10 s, driver heap of 2 GB")
    print("  clusters   all started     one interval   a cluster   memory")
    for count in counts:
        with servers() as made:
            _measure(made, count)


def _measure(made: Servers, count: int) -> None:
    names = [f"cluster-{number:04}" for number in range(count)]
    make_topics(made, *((f"samples-{name}", 1) for name in names))
    session = spark("2g")
    metrics = JobMetrics()
    settings = made.settings("samples", trigger_interval_seconds=10.0)
    settings = settings.model_copy(
        update={"clusters": {name: SampledCluster(samples_topic=f"samples-{name}") for name in names}}
    )
    clusters = dict.fromkeys([*names, CLUSTER], made.cluster)
    service = PmpService(session, lambda: Configuration(settings, clusters, 3650), SystemClock(), metrics)
    broker = made.broker.nodes[0].pid
    try:
        began = time.monotonic()
        service.start()
        _until(lambda: _shown(metrics, "up") == count, service)
        started = time.monotonic() - began
        _write_round(made, names, 0)
        _until(lambda: _shown(metrics, "samples_written_total") == count * _PARTITIONS, service)
        began = time.monotonic()
        _write_round(made, names, 1)
        _until(lambda: _shown(metrics, "samples_written_total") == 2 * count * _PARTITIONS, service)
        lasted = time.monotonic() - began
        memory = sum(process.memory_info().rss for process in _processes(broker)) / 2**20
        print(
            f"  {count:8} {started:11.1f} s {lasted:14.1f} s {lasted / count:9.2f} s {memory:6.0f} MiB",
            flush=True,
        )
    finally:
        service.stop(120)
        session.stop()


def _write_round(made: Servers, names: Sequence[str], number: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(lambda name: write(made, f"samples-{name}", rounds(_PARTITIONS, 1, first=number)), names)
        )


def _until(condition: Callable[[], bool], service: PmpService) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if not service.is_running() or time.monotonic() > deadline:
            raise AssertionError(f"the job failed or timed out: {service.failure or service.problems()}")
        time.sleep(0.2)


def _shown(metrics: JobMetrics, name: str) -> float:
    """Return a figure summed over the clusters."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"headrace_pmp_{name}{{"))


def _processes(broker_pid: int) -> Iterator[psutil.Process]:
    """Yield the driver, its JVM and its Python workers."""
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        if process.pid != broker_pid:
            yield process


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=_COUNTS)
    main(parser.parse_args(sys.argv[1:]).counts)
