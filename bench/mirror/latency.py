"""Delivery latency at 1,000 records per second, and the start-up time of each mirror.

Latency is from the produce call to the record in a consumer at the destination, for no mirror (the consumer
reads the source), Headrace, a confluent-kafka loop and MirrorMaker 2, in turn between the same brokers; 1 KB
records, 16 partitions, acks=all. Brokers get faster as the JVM compiles them: two uncounted runs of Headrace
come first, and it runs again at the end. The same is then repeated on a machine under other load. Start-up
time is from the start of the process to the first record at the destination. Cases:
`BENCH_CASES=bare,headrace,gathering,loop,mm2,again,busy,start`. With `BENCH_FORMER`, only this checkout and
the former one run, alternately.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import psutil

from bench.mirror.rig.clusters import Pair, Topics, chosen, clusters
from bench.mirror.rig.data import PARTITIONS, Shape, write_topic
from bench.mirror.rig.engines import (
    MIRROR_MAKER_TOPICS,
    Engine,
    Work,
    confluent_loop,
    formers,
    headrace,
    mirror_maker,
)
from bench.mirror.rig.watch import Watch, cpu_seconds, family
from headrace.process.cores import usable_cores
from mirror.protocol.batches.compression import Codec
from stack.process.managed_process import ManagedProcess
from stack.process.wait import wait_until

_TOPIC = "bench-probe"
_RECORDS_PER_SECOND = 1_000
_RECORD_BYTES = 1_000
_WARM_UP_SECONDS = 14
_SECONDS = 20
_WARMING = 2
_GATHER_MS = 3
_STARTS = 5
_BUSY = ("bare", "headrace", "loop", "mm2", "again")
_BUSY_PROCESSES = 3
"""Number of always busy processes per core, besides the mirror and the brokers."""


@dataclass(frozen=True)
class _Case:
    name: str
    engine: Callable[[Pair, Work], Engine] | None
    gather_ms: int = 0


_CASES = {
    "bare": _Case("no mirror", None),
    "headrace": _Case("headrace", headrace),
    "gathering": _Case(f"headrace, gathering {_GATHER_MS} ms", headrace, _GATHER_MS),
    "loop": _Case("confluent-kafka", confluent_loop),
    "mm2": _Case("MirrorMaker 2", mirror_maker),
    "again": _Case("headrace, again", headrace),
}


def main() -> None:
    """Print the tables of latency and of start-up time."""
    with clusters() as pair:
        cases, busy = [_CASES[name] for name in chosen(*_CASES)], chosen("busy")
        if formers():
            cases, busy = [*(_Case(*former) for former in formers().items()), _CASES["headrace"]] * 3, []
        if cases or busy:
            Topics(pair.source).create(_TOPIC, PARTITIONS)
            _print_latencies(pair, cases, busy=bool(busy))
        if chosen("start"):
            _print_starts(pair)


def _print_latencies(pair: Pair, cases: list[_Case], *, busy: bool) -> None:
    print(f"latency at {_RECORDS_PER_SECOND:,} records/s of {_RECORD_BYTES:,} bytes, {_SECONDS} s")
    print(
        f"  {'engine':26}{'records':>9}{'p50 ms':>9}{'p90':>8}{'p99':>8}{'p99.9':>8}{'max':>8}"
        f"{'mirror %':>10}{'source %':>10}{'target %':>10}{'load':>7}"
    )
    arguments = ["write", pair.source.address, _TOPIC, PARTITIONS, _RECORDS_PER_SECOND, _RECORD_BYTES]
    with _probe("writer", pair, *arguments):
        for _ in range(_WARMING):
            _print_latency(pair, _Case("(warming)", headrace))
        for case in cases:
            _print_latency(pair, case)
        if busy:
            with _busy_machine() as processes:
                print(f"  with {processes} busy processes in addition")
                for name in _BUSY:
                    _print_latency(pair, _CASES[name])


@contextmanager
def _busy_machine() -> Iterator[int]:
    with ExitStack() as running:
        processes = _BUSY_PROCESSES * usable_cores()
        for number in range(processes):
            running.enter_context(
                ManagedProcess(f"busy-{number}", [sys.executable, "-c", "while True: pass"])
            )
        yield processes


def _print_latency(pair: Pair, case: _Case) -> None:
    work = Work(_TOPIC, Codec.LZ4, latency=True)
    engine = case.engine(pair, work) if case.engine else None
    if case.engine is confluent_loop:
        Topics(pair.target).create(f"{_TOPIC}-loop", PARTITIONS)
    with _gathering(case.gather_ms), engine.process if engine else nullcontext():
        cluster, topic = (pair.target, engine.target) if engine else (pair.source, _TOPIC)
        topics = Topics(cluster)
        wait_until(lambda: topics.end(topic, PARTITIONS) > 0, 120, f"records in {topic}")
        time.sleep(_WARM_UP_SECONDS if engine else 1)
        found, used = _measure(pair, engine, cluster.address, topic)
    print(
        f"  {case.name:26}{found['records']:9,.0f}{found['50']:9.1f}{found['90']:8.1f}{found['99']:8.1f}"
        f"{found['99.9']:8.1f}{found['max']:8.1f}{used[0]:10.1f}{used[1]:10.1f}{used[2]:10.1f}"
        f"{os.getloadavg()[0]:7.1f}",
        flush=True,
    )
    Topics(pair.target).delete("bench-", *MIRROR_MAKER_TOPICS)


def _measure(
    pair: Pair, engine: Engine | None, address: str, topic: str
) -> tuple[dict[str, float], list[float]]:
    """Return the latency that the reader measured, and the CPU of mirror, source and target in percent of a
    core."""

    def cpu() -> list[float]:
        mirror = family(psutil.Process(engine.process.pid)) if engine else []
        brokers = (psutil.Process(cluster.nodes[0].pid) for cluster in (pair.source, pair.target))
        return [sum(map(cpu_seconds, mirror)), *map(cpu_seconds, brokers)]

    reader = _held_probe("reader", pair, "read", address, topic, PARTITIONS)
    reader.log_file.unlink(missing_ok=True)
    with reader:
        before = cpu()
        time.sleep(_SECONDS)
        used = [(after - then) / _SECONDS * 100 for after, then in zip(cpu(), before, strict=True)]
    return json.loads(reader.log_file.read_text(encoding="utf-8").splitlines()[-1]), used


@contextmanager
def _gathering(milliseconds: int) -> Iterator[None]:
    """Set Headrace's `gather_ms` in the environment of processes started in the context."""
    name = "HEADRACE_MIRROR__COPYING__GATHER_MS"
    if milliseconds:
        os.environ[name] = str(milliseconds)
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _held_probe(name: str, pair: Pair, *arguments: object) -> ManagedProcess:
    command = [sys.executable, "-m", "bench.mirror.rig.probe", *map(str, arguments)]
    return ManagedProcess(name, command, log_file=pair.folder / f"{name}.log")


@contextmanager
def _probe(name: str, pair: Pair, *arguments: object) -> Iterator[None]:
    with _held_probe(name, pair, *arguments) as process:
        yield
        assert process.is_alive(), process.log_file.read_text(encoding="utf-8")[-2000:]


def _print_starts(pair: Pair) -> None:
    topic = write_topic(pair.source, Shape("start", Codec.LZ4, 10, 1_600))
    print(f"\nprocess start to first record at the destination; {PARTITIONS} partitions, a new topic there")
    makers: dict[str, tuple[Callable[[Pair, Work], Engine], int]] = {"headrace": (headrace, _STARTS)}
    makers |= {name: (make, _STARTS) for name, make in formers().items()}
    makers |= {} if formers() else {"MirrorMaker 2": (mirror_maker, 1)}
    for name, (make, runs) in makers.items():
        seconds = []
        for _ in range(runs):
            Topics(pair.target).delete("bench-", *MIRROR_MAKER_TOPICS)
            engine = make(pair, Work(topic.name, Codec.LZ4))
            drain = Watch(pair).drain(engine, PARTITIONS, topic.records)
            seconds.append(drain.first_record_seconds)
        each = " ".join(f"{second:.2f}" for second in seconds)
        print(f"  {name:16}{statistics.median(seconds):8.2f} s   ({each})", flush=True)
