"""Unusually large cases: a topic of 5,000 partitions, 2,000 topics in one expression, records of 20 MB.

The first two run in a service of one instance between two clusters of two brokers: time until every partition
has its record, the lag over REST, and the page of the datastream in a browser. Records of 20 MB are copied
once with their batches as they are, and once record by record, between clusters of one broker.
`BENCH_CASES=partitions,topics,batches,records` selects cases, and `BENCH_PARTITIONS`, `BENCH_TOPICS` and
`BENCH_RECORDS` make them smaller. `BENCH_BROKERS=1` and `TMPDIR=/dev/shm` (files in memory) make the creation
of partitions faster, because a broker flushes several files for each.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from playwright.sync_api import expect

from bench.mirror.rig.clusters import Pair, Topics, chosen, clusters, clusters_of_many_partitions
from bench.mirror.rig.engines import Work, headrace
from bench.mirror.rig.watch import Watch, cpu_seconds, family, peak_mib
from mirror.model.datastreams.policy import CopyPath
from mirror.protocol.batches.compression import Codec
from stack.process.wait import wait_until
from tests.browser.chromium import WIDE, running_chromium
from tests.running import RunningInstance

_RECORD_BYTES: Final = 20_000_000
_BATCH_LIMIT: Final = 25_000_000
_SECONDS: Final = 900.0
_ROWS: Final = 50
"""Rows of the first page of the table of partitions."""
_TOPICS_AT_ONCE: Final = 200


def main() -> None:
    """Print the lines of each case."""
    cases: Mapping[str, Callable[[], None]] = {
        "partitions": _partitions,
        "topics": _topics,
        "batches": lambda: _large_records(CopyPath.AUTO),
        "records": lambda: _large_records(CopyPath.RECORD),
    }
    for name in chosen(*cases):
        cases[name]()


def _number(name: str, usual: int) -> int:
    return int(os.environ.get(name, usual))


def _partitions() -> None:
    """Copy one topic of many partitions."""
    partitions = _number("BENCH_PARTITIONS", 5_000)
    with clusters_of_many_partitions() as pair:
        began = time.monotonic()
        Topics(pair.source).create("bench-wide", partitions)
        print(f"one topic of {partitions:,} partitions, created in {time.monotonic() - began:.1f} s")
        _write_one_each(pair, {"bench-wide": partitions})
        _copy_in_a_service(pair, "bench-wide", {"bench-wide": partitions})


def _topics() -> None:
    """Copy many topics that one expression matches."""
    names = [f"bench-many-{number:04}" for number in range(_number("BENCH_TOPICS", 2_000))]
    with clusters_of_many_partitions() as pair:
        began, made = time.monotonic(), Topics(pair.source)
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            made.create_many(names[start : start + _TOPICS_AT_ONCE])
        print(f"{len(names):,} topics of one partition, created in {time.monotonic() - began:.1f} s")
        _write_one_each(pair, dict.fromkeys(names, 1))
        _copy_in_a_service(pair, "bench-many-.*", dict.fromkeys(names, 1))


def _write_one_each(pair: Pair, topics: Mapping[str, int]) -> None:
    producer = Producer({"bootstrap.servers": pair.source.address, "acks": "all"})
    for topic, partitions in topics.items():
        for number in range(partitions):
            producer.produce(topic, b"first", partition=number)
            producer.poll(0)
    assert producer.flush(_SECONDS) == 0


def _copy_in_a_service(pair: Pair, expression: str, topics: Mapping[str, int]) -> None:
    """Mirror the topics and print the figures of the service."""
    total = sum(topics.values())
    with _instance(pair, max(topics.values())) as instance:
        process = psutil.Process(instance.pid)
        began, before = time.monotonic(), sum(map(cpu_seconds, family(process)))
        instance.rest.post("/v1/datastreams", _definition(expression))
        there = Topics(pair.target)
        wait_until(lambda: there.names("bench-") == len(topics), _SECONDS, "topics at the destination")
        made = time.monotonic() - began
        wait_until(
            lambda: there.ends(topics) == total, _SECONDS, "a record in every partition", interval_seconds=1.0
        )
        copied = time.monotonic() - began
        used = sum(map(cpu_seconds, family(process))) - before
        print(
            f"  topics at the destination after {made:.1f} s, {total:,} records after {copied:.1f} s,"
            f" {used:.1f} CPU s",
            flush=True,
        )
        _print_lag(instance, total)
        _print_page(instance, total)
        control, *workers = family(process)
        print(
            f"  peak memory: control process {peak_mib(control):.0f} MiB,"
            f" worker {max(map(peak_mib, workers)):.0f} MiB",
            flush=True,
        )


@contextmanager
def _instance(pair: Pair, partitions: int) -> Iterator[RunningInstance]:
    """Run one instance with the embedded store and one worker."""
    environment = {
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_MIRROR__STATE_DIRECTORY": str(pair.folder / "state"),
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        "HEADRACE_MIRROR__LEADER__MAX_PARTITIONS_PER_TOPIC": str(partitions),
    }
    instance = RunningInstance("bench", pair.folder, environment)
    try:
        yield instance.start()
    finally:
        instance.stop()


def _definition(expression: str) -> dict[str, Any]:
    return {
        "name": "sizes",
        "source": {"cluster": "source", "topics": expression},
        "destination": {"cluster": "destination"},
        "metadata": {"owner": "bench"},
    }


def _print_lag(instance: RunningInstance, total: int) -> None:
    """Print the time and size of the REST response with all lags, whole and one page."""

    def lag(**query: Any) -> dict[str, Any]:
        found: dict[str, Any] = instance.rest.get("/v1/datastreams/sizes/lag", **query)
        return found

    wait_until(lambda: lag(limit=1)["lag_records"] == 0, _SECONDS, "a known lag of 0", interval_seconds=1.0)
    page = {"limit": _ROWS, "sort": "lag_ms", "descending": True}
    queries: Mapping[str, Mapping[str, Any]] = {"all": {}, f"{_ROWS} of them": page}
    for name, query in queries.items():
        began = time.monotonic()
        found = lag(**query)
        seconds = time.monotonic() - began
        assert found["matching"] == total, found["matching"]
        print(f"  lag of {name}: {len(found['partitions']):,} partitions in {seconds * 1_000:.0f} ms")


def _print_page(instance: RunningInstance, total: int) -> None:
    """Print the time to the first rows of the page of the datastream, and to a filtered row."""
    with running_chromium() as browser:
        context = browser.new_context(viewport=WIDE)
        page = context.new_page()
        began = time.monotonic()
        page.goto(f"http://{instance.address}/ui/#/datastreams/sizes")
        card = page.get_by_role("region", name="Partitions", exact=True)
        rows = card.locator("tbody tr")
        expect(rows).to_have_count(min(_ROWS, total), timeout=120_000)
        shown = time.monotonic() - began
        sample = rows.last.inner_text().split()[0]
        began = time.monotonic()
        card.get_by_role("searchbox").fill(sample)
        expect(rows.first).to_contain_text(sample, timeout=120_000)
        print(f"  page: {_ROWS} rows after {shown:.1f} s, filtered after {time.monotonic() - began:.1f} s")
        context.close()


def _large_records(path: CopyPath) -> None:
    """Copy records of 20 MB on one path."""
    count = _number("BENCH_RECORDS", 20)
    with clusters(heap_mib=1024, properties={"message.max.bytes": _BATCH_LIMIT}) as pair:
        Topics(pair.source).create("bench-large", 1, max_message_bytes=str(_BATCH_LIMIT))
        numbers = random.Random(count)
        producer = Producer({"bootstrap.servers": pair.source.address, "message.max.bytes": _BATCH_LIMIT})
        for _ in range(count):
            producer.produce("bench-large", numbers.randbytes(_RECORD_BYTES))
            assert producer.flush(_SECONDS) == 0
        engine = headrace(pair, Work("bench-large", Codec.NONE), "--path", path.value)
        drain = Watch(pair).drain(engine, 1, count)
        last = drain.samples[-1]
        seconds = drain.first_record_seconds + last.at - drain.samples[0].at
        print(
            f"{count} records of {_RECORD_BYTES:,} bytes, path {path}: {seconds:.1f} s with the start,"
            f" {count * _RECORD_BYTES / 1e6 / drain.seconds_for(count):.0f} MB/s after the first,"
            f" {last.cpu['mirror']:.1f} CPU s, worker {drain.worker_mib:.0f} MiB",
            flush=True,
        )
