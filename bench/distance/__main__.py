"""Rate and CPU cost of copying between distant clusters: Headrace, MirrorMaker 2 and a confluent-kafka loop.

The clusters are in two network namespaces, joined by a link that delays every packet, so that real TCP
connections cross it. Engines run at the near end: beside the destination (read) or the source (write). Needs
root and a C compiler, and exits with 1 without them. In the environment:

    BENCH_CASES=read,write,read-one,write-one,read-small,write-small,latency
    BENCH_MS=0,25,50,100         delay each way
    BENCH_BUFFERS=102400,-1      socket buffers of the brokers in bytes; -1: sized by the kernel
    BENCH_ENGINES="headrace,MirrorMaker 2,confluent-kafka"
    BENCH_MBIT=0 BENCH_LOSS=0    rate limit in Mbit/s (0: none), lost packets in percent
    BENCH_SECONDS=20 BENCH_OPTIONS="--workers 4"
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import cast

from bench.distance.far import FarCluster, far_cluster
from bench.distance.latencies import PROBE_TOPIC, RECORDS_PER_SECOND, measure_latency, writing
from bench.distance.link import Line, Namespaces, RigUnavailable, namespaces, require_rig
from bench.distance.rates import Rate, measure
from bench.mirror.rig.clusters import Pair, Topics, chosen
from bench.mirror.rig.data import PARTITIONS, Shape, SourceTopic, write_topic
from bench.mirror.rig.engines import (
    MIRROR_MAKER_TOPICS,
    Engine,
    Work,
    confluent_loop,
    formers,
    headrace,
    mirror_maker,
)
from mirror.protocol.batches.compression import Codec
from stack.jars import jar_sets
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm

_SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
_SETTLE_SECONDS = 5.0
_PROBE = Work(PROBE_TOPIC, Codec.LZ4, latency=True)
_BROKER = {"log.segment.delete.delay.ms": 1000, "offsets.topic.num.partitions": 1}


@dataclass(frozen=True)
class Case:
    """A copy to measure. `reads`: whether the source, not the destination, is distant."""

    reads: bool
    shape: Shape


_LARGE = Shape("large", Codec.NONE, 250, 1_600_000)
_ONE = Shape("one-partition", Codec.NONE, 250, 500_000, partitions=1)
_SMALL = Shape("small", Codec.NONE, 10, 800_000)
_CASES = {
    "read": Case(True, _LARGE),
    "write": Case(False, _LARGE),
    "read-one": Case(True, _ONE),
    "write-one": Case(False, _ONE),
    "read-small": Case(True, _SMALL),
    "write-small": Case(False, _SMALL),
}
_LATENCY = "latency"


def main() -> None:
    """Print a line for each engine, case, delay and buffer size; exit with 1 without root or a compiler."""
    jar_sets.class_path("kafka")  # fetched now: the namespaces reach no network
    try:
        require_rig()
    except RigUnavailable as error:
        print(f"bench distance cannot run here: {error}", file=sys.stderr)
        sys.exit(1)
    print(
        f"{'case':12}{'each way':>9}{'buffers':>9}  {'engine':18}{'MB/s':>8}{'CPU-s/GB':>10}"
        f"   ({PARTITIONS} partitions, 1 KB records; one: 1 partition; small: batches of 10 KB)"
    )
    with tempfile.TemporaryDirectory() as folder, namespaces(Path(folder)) as ends:
        ends.enter_near()
        for buffers, delay, name in product(
            _list("BENCH_BUFFERS", "102400,-1"), _delays(), chosen(*_CASES, _LATENCY)
        ):
            line = Line(delay, _number("BENCH_MBIT"), _number("BENCH_LOSS"))
            with ends.joined(line):
                (_run_latency if name == _LATENCY else _run_case)(ends, name, line, int(buffers))


def _run_case(ends: Namespaces, name: str, line: Line, buffers: int) -> None:
    case = _CASES[name]
    with _pair(ends, reads=case.reads, buffers=buffers) as pair:
        topic = _write(pair.source, case.shape)
        record_bytes = topic.payload_bytes / topic.records
        for engine in _engines():
            rate = _run(pair, engine, topic)
            print(
                f"{name:12}{line.one_way_ms:6g} ms{buffers:9}  {engine:18}{rate.mb_per_s(record_bytes):8.1f}"
                f"{rate.cpu_per_gb(record_bytes):10.2f}",
                flush=True,
            )


def _run_latency(ends: Namespaces, name: str, line: Line, buffers: int) -> None:
    """Print the latency of each engine at the destination, after that of the source itself."""
    with _pair(ends, reads=True, buffers=buffers) as pair:
        Topics(pair.source).create(PROBE_TOPIC, PARTITIONS)
        with writing(ends, pair.source.address, pair.folder):
            for engine_name in ("no mirror", *_engines()):
                engine = (
                    None if engine_name == "no mirror" else _prepare(pair, engine_name, _PROBE, PARTITIONS)
                )
                found = measure_latency(ends, pair, engine, _SECONDS)
                print(
                    f"{name:12}{line.one_way_ms:6g} ms{buffers:9}  {engine_name:18}"
                    f"p50 {found['50']:.1f} ms, p99 {found['99']:.1f} ms at {RECORDS_PER_SECOND:,} records/s",
                    flush=True,
                )


@contextmanager
def _pair(ends: Namespaces, *, reads: bool, buffers: int) -> Iterator[Pair]:
    properties = {**_BROKER, "socket.send.buffer.bytes": buffers, "socket.receive.buffer.bytes": buffers}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        near_name, far_name = ("target", "source") if reads else ("source", "target")
        near = KafkaCluster(
            near_name, folder / "near", [NodePorts.free()], jvm=Jvm(heap_mib=512), properties=properties
        )
        near.start()
        try:
            with far_cluster(ends, far_name, folder / "far", properties) as far:
                # Engines and samplers only use the name, the address and the process of a cluster.
                other = cast(KafkaCluster, far)
                yield Pair(*((other, near) if reads else (near, other)), folder)
        finally:
            near.kill()


def _write(source: KafkaCluster | FarCluster, shape: Shape) -> SourceTopic:
    return source.write_topic(shape) if isinstance(source, FarCluster) else write_topic(source, shape)


def _run(pair: Pair, name: str, topic: SourceTopic) -> Rate:
    partitions = topic.shape.partitions
    engine = _prepare(pair, name, Work(topic.name, topic.shape.codec), partitions)
    topics = Topics(pair.target)
    return measure(
        engine, lambda: topics.end(engine.target, partitions), topic.records, _SETTLE_SECONDS, _SECONDS
    )


def _prepare(pair: Pair, name: str, work: Work, partitions: int) -> Engine:
    """Return a mirror engine whose destination is empty."""
    topics = Topics(pair.target)
    topics.delete("bench-", *MIRROR_MAKER_TOPICS)
    engine = _engine(pair, name, work, os.environ.get("BENCH_OPTIONS", "").split())
    if name == "confluent-kafka":
        topics.create(engine.target, partitions)
    return engine


def _engine(pair: Pair, name: str, work: Work, options: list[str]) -> Engine:
    if name == "headrace":
        return headrace(pair, work, *options)
    others = {"MirrorMaker 2": mirror_maker, "confluent-kafka": confluent_loop, **formers()}
    return others[name](pair, work)


def _engines() -> list[str]:
    return _list("BENCH_ENGINES", ",".join(("headrace", *formers(), "MirrorMaker 2", "confluent-kafka")))


def _list(variable: str, default: str) -> list[str]:
    return os.environ.get(variable, default).split(",")


def _delays() -> list[float]:
    return [float(delay) for delay in _list("BENCH_MS", "0,25,50,100")]


def _number(variable: str) -> float:
    return float(os.environ.get(variable, "0"))


if __name__ == "__main__":
    main()
