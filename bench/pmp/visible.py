"""Time from a sample produced to its row in a Pinot response, through a running job."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.pmp.rig.metrics_load import CLUSTER, Servers, make_topics, rounds, servers, spark
from mirror.adapters.system_clock import SystemClock
from pinot.client import PinotClient
from pmp.job.service import PmpService

_POLL_SECONDS = 0.05
_TIME = slice(77, 85)
"""Bytes of the sample time, version 1."""
_COUNTS = (
    "select time_ms, count(*) from partitionMetrics where cluster = %(cluster)s and time_ms >= %(since)s "
    "group by time_ms limit 10000"
)


def main() -> None:
    """Measure many small sampling intervals, then a few large ones as from Cruise Control in a large
    cluster."""
    with servers(pinot_heap_mib=2000) as made:
        session = spark()
        try:
            print("produced to visible                samples   rounds  median s   p90 s   p99 s  slowest s")
            measure(made, session, "2,000 samples every second", 2_000, 1.0, 60)
            measure(made, session, "50,000 samples every 10 s", 50_000, 10.0, 9)
        finally:
            session.stop()


def measure(
    made: Servers, session: SparkSession, name: str, samples: int, pause_seconds: float, count: int
) -> None:
    """Produce samples while polling Pinot; the first third is warm-up."""
    topic = f"samples-{samples}"
    make_topics(made, (topic, 8))
    pouring = _Pouring(made.broker.address, topic, samples, pause_seconds, count)
    with _job(made, session, topic), closing(PinotClient(made.pinot_settings)) as client:
        pouring.start()
        seen = _watch(client, pouring)
    counted = sorted(seen)[len(seen) // 3 :]
    seconds = np.concatenate([seen[time_ms] for time_ms in counted]) / 1000
    quantiles = " ".join(f"{np.quantile(seconds, q):7.2f}" for q in (0.9, 0.99, 1))
    print(f"  {name:30} {len(seconds):9,} {len(counted):8} {np.median(seconds):9.2f} {quantiles}", flush=True)


@contextmanager
def _job(made: Servers, session: SparkSession, topic: str) -> Iterator[None]:
    """Run the job like `headrace pmp run`, with its default trigger."""
    settings = made.settings(topic, trigger_interval_seconds=1.0)
    service = PmpService(session, lambda: made.configuration(settings), SystemClock())
    service.start()
    try:
        yield
    finally:
        service.stop(60)


class _Pouring:
    """Producer of samples, stamped with the time just before the first of an interval is produced."""

    def __init__(self, address: str, topic: str, samples: int, pause_seconds: float, count: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "compression.type": "gzip",
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._topic = topic
        self._values = list(rounds(samples, 1))
        self._pause_seconds = pause_seconds
        self._count = count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.began_ms = SystemClock().now_ms()

    @property
    def total(self) -> int:
        return len(self._values) * self._count

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        for number in range(self._count):
            due = time.monotonic() + self._pause_seconds
            stamp = struct.pack(">q", SystemClock().now_ms())
            for value in self._values:
                self._producer.produce(self._topic, value=value[: _TIME.start] + stamp + value[_TIME.stop :])
            self._producer.flush()
            if number + 1 < self._count:
                time.sleep(max(0.0, due - time.monotonic()))


def _watch(client: PinotClient, pouring: _Pouring) -> dict[int, np.ndarray]:
    """Return the delay in ms until each sample was visible in Pinot."""
    seen: dict[int, list[np.ndarray]] = {}
    counts: dict[int, int] = {}
    while sum(counts.values()) < pouring.total:
        answer = client.ask(_COUNTS, {"cluster": CLUSTER, "since": pouring.began_ms})
        now_ms = SystemClock().now_ms()
        for time_ms, count in answer.rows:
            new = int(count) - counts.get(time_ms, 0)
            if new > 0:
                counts[time_ms] = int(count)
                seen.setdefault(time_ms, []).append(np.full(new, now_ms - time_ms))
        time.sleep(_POLL_SECONDS)
    return {time_ms: np.concatenate(parts) for time_ms, parts in seen.items()}
