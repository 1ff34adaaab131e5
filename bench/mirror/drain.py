"""A backlog drained by Headrace, MirrorMaker 2 and a confluent-kafka loop: CPU per GB, time, memory.

16 partitions, 1 KB records. The engines take turns on the same two brokers, restarted for each case. Each
engine except MirrorMaker 2 first copies the topic once uncounted: otherwise the first engine would pay for
the JIT compilation of the brokers and for memory that the host has to provide.
All figures start at the first record at the destination, so start-up costs are excluded.
`BENCH_CASES=none,lz4,zstd,ten,one,tls` chooses cases; in case `tls`, the mirrors use TLS on
both sides. With `BENCH_FORMER`, only this checkout and the former one run, alternately.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from bench.machine import new_page_us
from bench.mirror.rig.clusters import TLS_LISTENER, TLS_PROPERTIES, Pair, Topics, chosen, clusters
from bench.mirror.rig.data import PARTITIONS, Shape, SourceTopic, write_topic
from bench.mirror.rig.engines import (
    MIRROR_MAKER_TOPICS,
    Engine,
    Work,
    confluent_loop,
    formers,
    headrace,
    interpreted,
    mirror_maker,
)
from bench.mirror.rig.watch import Drain, Watch
from mirror.protocol.batches.compression import Codec

_OURS = "headrace"
_WARMING = ("headrace", "confluent-kafka", "headrace", "headrace")
"""Uncounted runs, during which the JVM compiles the brokers' code."""
_BROKER: dict[str, object] = {"log.segment.delete.delay.ms": 1000}
"""Erase the topics of an engine soon after deletion, so that the next engine reuses their memory."""
_MAKERS: dict[str, Callable[[Pair, Work], Engine]] = {
    "headrace": headrace,
    "interpreted": interpreted,
    "MirrorMaker 2": mirror_maker,
    "confluent-kafka": confluent_loop,
    **formers(),
}
_RUNS_OF_FORMERS = (*formers(), _OURS) * 4


@dataclass(frozen=True)
class Case:
    """Topic to copy, and the mirrors that copy it one after the other."""

    shape: Shape
    tls: bool = False
    runs: tuple[str, ...] = (
        "headrace",
        "MirrorMaker 2",
        "headrace",
        "interpreted",
        "confluent-kafka",
        "headrace",
        "interpreted",
    )


_CASES = {
    "none": Case(Shape("none", Codec.NONE, 250, 2_000_000)),
    "lz4": Case(Shape("lz4", Codec.LZ4, 500, 3_000_000)),
    "zstd": Case(Shape("zstd", Codec.ZSTD, 600, 2_000_000)),
    "ten": Case(Shape("ten", Codec.LZ4, 10, 2_000_000)),
    "one": Case(
        Shape("one", Codec.LZ4, 1, 600_000),
        runs=("headrace", "confluent-kafka", "headrace", "interpreted", "confluent-kafka", "headrace"),
    ),
    "tls": Case(
        Shape("tls", Codec.NONE, 250, 1_000_000),
        tls=True,
        runs=("headrace", "MirrorMaker 2", "headrace", "MirrorMaker 2", "headrace"),
    ),
}


def main() -> None:
    """Print a table for each case, and the ratio of Headrace to each other mirror."""
    for name in chosen(*_CASES):
        case = _CASES[name]
        listeners = (TLS_LISTENER,) if case.tls else ()
        with clusters(properties=_BROKER | (TLS_PROPERTIES if case.tls else {}), listeners=listeners) as pair:
            topic = write_topic(pair.source, case.shape)
            print(f"{topic}\n{_HEADING}")
            for warming in _WARMING:
                if warming in case.runs:
                    _run(pair, warming, topic, case.tls)
            runs: dict[str, list[Drain]] = {}
            for engine in _RUNS_OF_FORMERS if formers() else case.runs:
                page_us = new_page_us()
                drain = _run(pair, engine, topic, case.tls)
                runs.setdefault(engine, []).append(drain)
                print(f"{_line(engine, drain, topic)}{page_us:11.1f}", flush=True)
            _print_ratios(runs, topic)


_COLUMNS = ("mirror", "2nd half", "source", "target", "all")
_HEADING = (
    f"  {'':16}{'':16}CPU seconds for a GB of payload\n  {'engine':16}{'drain s':>9}{'MB/s':>7}"
    + "".join(f"{name:>10}" for name in _COLUMNS)
    + f"{'RSS MiB':>10}{'first rec.':>12}{'CPU to it':>11}{'us a page':>11}"
)


def _run(pair: Pair, name: str, topic: SourceTopic, tls: bool) -> Drain:
    topics = Topics(pair.target)
    topics.delete("bench-", *MIRROR_MAKER_TOPICS)
    topics.wait_until_erased()
    engine = _MAKERS[name](pair, Work(topic.name, topic.shape.codec, tls=tls))
    if name == "confluent-kafka":
        topics.create(engine.target, PARTITIONS)
    return Watch(pair).drain(engine, PARTITIONS, topic.records)


def _per_gb(drain: Drain, name: str, topic: SourceTopic, since_half: bool = False) -> float:
    return drain.cpu_of(name, since_half) * topic.records / (topic.payload_bytes / 1e9)


def _all(drain: Drain, topic: SourceTopic) -> float:
    return sum(_per_gb(drain, name, topic) for name in ("mirror", "source", "target"))


def _line(name: str, drain: Drain, topic: SourceTopic) -> str:
    seconds = drain.seconds_for(topic.records)
    mirror, half = (_per_gb(drain, "mirror", topic, since_half) for since_half in (False, True))
    source, target = (_per_gb(drain, broker, topic) for broker in ("source", "target"))
    return (
        f"  {name:16}{seconds:9.1f}{topic.payload_bytes / 1e6 / seconds:7.0f}"
        f"{mirror:10.2f}{half:10.2f}{source:10.2f}{target:10.2f}{_all(drain, topic):10.2f}"
        f"{drain.resident_mib:10.0f}{drain.first_record_seconds:12.2f}{drain.start_cpu:11.2f}"
    )


def _print_ratios(runs: dict[str, list[Drain]], topic: SourceTopic) -> None:
    """Print the medians of Headrace relative to each other mirror."""

    def median(name: str, value: Callable[[Drain], float]) -> float:
        return statistics.median(map(value, runs[name]))

    figures: dict[str, Callable[[Drain], float]] = {
        "mirror CPU": lambda drain: _per_gb(drain, "mirror", topic),
        "mirror CPU, 2nd half": lambda drain: _per_gb(drain, "mirror", topic, since_half=True),
        "target broker CPU": lambda drain: _per_gb(drain, "target", topic),
        "CPU of all three": lambda drain: _all(drain, topic),
        "drain time": lambda drain: drain.seconds_for(topic.records),
    }
    for other in runs:
        if other != _OURS and _OURS in runs:
            for label, value in figures.items():
                ours, theirs = median(_OURS, value), median(other, value)
                print(f"  {label}: {ours:.2f} against {theirs:.2f} of {other}, 1/{theirs / ours:.1f}")
    print(flush=True)
