"""Latency of load queries over an hour of samples and a day of rollups of 200,000 partitions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sized
from contextlib import closing
from functools import partial

import psutil

from bench.pmp.rig.metrics_load import CLUSTER, START_MS, Servers, servers, spark
from bench.pmp.rig.rows import ROUND_MS, wait_for_rows, write_hours, write_samples
from mirror.adapters.system_clock import SystemClock
from mirror.model.identifiers import ClusterRef
from pinot.client import PinotClient
from pinot.partitions.load_queries import freshness, partition_rates, top_movers
from pinot.partitions.offending_partitions import offending_partitions
from pinot.partitions.pages import Grain, bounds
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY, Statistic
from pinot.time_range import TimeRange
from pmp.loads.provider import PinotLoadProvider
from pmp.settings import PmpSettings

PARTITIONS = 200_000
ROUNDS = 30
HOURS = 30
RUNS = 7
HOUR = TimeRange(START_MS, START_MS + ROUNDS * ROUND_MS)
DAY = TimeRange(START_MS - 23 * HOUR_MS, START_MS + HOUR_MS)


def main() -> None:
    """Write the rows, wait until Pinot has them, and run the queries."""
    with servers(pinot_heap_mib=8000) as made:
        fill(made, PARTITIONS)
        measure(made, PARTITIONS)


def fill(made: Servers, partitions: int) -> None:
    """Write an hour of samples and thirty of rollups for one cluster and a quarter-size one."""
    began = time.monotonic()
    session = spark()
    clusters = [(CLUSTER, partitions), ("another", partitions // 4)]
    try:
        samples = sum(write_samples(session, made, name, size, ROUNDS) for name, size in clusters)
        hours = sum(write_hours(session, made, name, size, HOURS) for name, size in clusters)
    finally:
        session.stop()
    with closing(PinotClient(made.pinot_settings)) as client:
        wait_for_rows(client, PARTITION_METRICS.name, samples)
        wait_for_rows(client, PARTITION_METRICS_HOURLY.name, hours)
    assert made.pinot is not None
    resident = psutil.Process(made.pinot.pid).memory_info().rss / 2**30
    files = (made.folder / "pinot" / "server" / "index").rglob("*")
    stored = sum(file.stat().st_blocks * 512 for file in files if file.is_file()) / 2**30
    print(
        f"{samples:,} samples and {hours:,} hourly rows in Pinot after {time.monotonic() - began:.0f} s; "
        f"{resident:.1f} GiB of memory, {stored:.1f} GiB of segments",
        flush=True,
    )


def measure(made: Servers, partitions: int) -> None:
    """Print the median and the slowest of several runs of each query, as the product sends it."""
    print(f"{partitions:,} partitions, {RUNS} runs                             rows    median s   slowest s")
    with closing(PinotClient(made.pinot_settings)) as client:
        for statistic in Statistic:
            _time(f"loads, an hour of samples, {statistic}", partial(_loads, client, HOUR, statistic))
        for statistic in Statistic:
            name = f"loads, a day of rollups, {statistic}"
            _time(name, partial(_loads, client, DAY, statistic, Grain.HOURS))
        _time("all loads of the provider, an hour", partial(_provided, client, 3600))
        _time("all loads of the provider, a day", partial(_provided, client, 24 * 3600))
        for usable in (2e5, 2e4):
            name = f"offending partitions of {usable:,.0f} B/s, p95"
            _time(name, partial(offending_partitions, client, CLUSTER, HOUR, usable))
        _time("top movers, day over day", partial(top_movers, client, CLUSTER, DAY))
        _time("freshness and coverage", partial(freshness, client, HOUR))
        _time("growth of sizes, computed by the query", partial(_slopes_in_query, client, partitions))
        _time("growth of sizes, stored", partial(_slopes_stored, client, partitions))


def _loads(client: PinotClient, when: TimeRange, statistic: Statistic, grain: Grain = Grain.SAMPLES) -> Sized:
    return partition_rates(client, CLUSTER, when, statistic=statistic, grain=grain)


def _provided(client: PinotClient, seconds: int) -> Sized:
    provider = PinotLoadProvider(client, PmpSettings(), SystemClock())
    return provider.measured(ClusterRef(CLUSTER), HOUR.until_ms - 1, seconds * 1000).loads


def _slopes_in_query(client: PinotClient, partitions: int) -> Sized:
    """Compute log growth from sizes in the query, without a guard against shrinking logs."""
    last, first = (f"{which}withtime(size_bytes, time_ms, 'double')" for which in ("last", "first"))
    return _grouped(client, partitions, f"{last} - {first}, max(time_ms) - min(time_ms)")


def _slopes_stored(client: PinotClient, partitions: int) -> Sized:
    return _grouped(client, partitions, "sum(growth_bytes), sum(growth_ms)")


def _grouped(client: PinotClient, partitions: int, columns: str) -> Sized:
    """Run the grouped query in two pages, each below Pinot's limit of groups."""
    rows: list[object] = []
    half = f"topic-{partitions // 20:06}"
    for condition in ("topic < %(half)s", "topic >= %(half)s"):
        answer = client.ask(
            f"select topic, kafka_partition, {columns} from partitionMetrics "
            f"{Grain.SAMPLES.where} and {condition} group by topic, kafka_partition limit {partitions}",
            bounds(CLUSTER, HOUR) | {"half": half},
        )
        rows += answer.rows
    return rows


def _time(name: str, question: Callable[[], Sized]) -> None:
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        answer = question()
        taken.append(time.perf_counter() - began)
    print(f"  {name:46} {len(answer):10,} {statistics.median(taken):11.3f} {max(taken):11.3f}", flush=True)
