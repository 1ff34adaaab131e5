"""Audits of 1 million and of 100 million records: peak memory and CPU time, for equal and differing copies.

Both clusters are fake brokers in a separate process, so the figures include only the audit.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from bench.tables import print_table
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy
from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.fakes.broker import batches
from tests.fakes.broker.cluster import FakeCluster, running

_VALUE_BYTES: Final = 200
_TOPIC: Final = "t"
_SOURCE, _DESTINATION = ClusterRef("source"), ClusterRef("destination")
_LZ4: Final = 3
_COLUMNS: Final = ("copy", "records", "batch", "seconds", "CPU s", "MB at the peak", "equal", "altered")
"""`MB at the peak`: memory in addition to that of the idle process."""


class _Case(NamedTuple):
    """A copy to audit. `altered_every`: one in this number of batches has all its records altered at the
    destination; 0 for none."""

    name: str
    records: int
    per_batch: int
    codec: int = 0
    altered_every: int = 0
    sums: bool = False


_CASES: Final = (
    _Case("equal batches", 1_000_000, 500),
    _Case("equal records, decoded for checksums", 1_000_000, 500, sums=True),
    _Case("every record altered", 1_000_000, 500, altered_every=1),
    _Case("equal batches, LZ4", 100_000_000, 1_000, _LZ4),
    _Case("1 % of the records changed, LZ4", 100_000_000, 1_000, _LZ4, altered_every=100),
)


def main() -> None:
    """Print one row for each kind of copy."""
    print(f"\nrecords of {_VALUE_BYTES} bytes, one partition\n")
    print_table(_COLUMNS, map(_row_of_new_process, _CASES))


def _row_of_new_process(case: _Case) -> tuple[str, ...]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_row, case).result()


def _row(case: _Case) -> tuple[str, ...]:
    with _clusters(case) as addresses:
        job = VerifyJob(_SOURCE, _DESTINATION, TopicSelection(_TOPIC), state="state", allows_expired=True)
        job = replace(job, sums=case.sums)
        before, began, began_cpu = _peak_mb(), time.monotonic(), time.process_time()
        verdict = _audit(addresses, job)
        seconds, cpu = time.monotonic() - began, time.process_time() - began_cpu
        counts = verdict.comparison.found.counts
        more = _peak_mb() - before
    numbers = (f"{number:,}" for number in (case.records, case.per_batch))
    found = (f"{number:,}" for number in (counts.equal, counts.altered))
    return (case.name, *numbers, f"{seconds:.1f}", f"{cpu:.1f}", f"{more:.1f}", *found)


def _audit(addresses: dict[ClusterRef, str], job: VerifyJob) -> PartitionVerdict:
    bench = EngineContext(
        lambda reference: ClusterAccess(endpoints(addresses[reference])),
        CopyingOptions(),
        EngineIdentity(socket.gethostname()),
        SystemClock(),
    )
    try:
        (found,) = bench.run(audit_copy(bench, job))
    finally:
        bench.close()
    return found


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _clusters(case: _Case) -> Iterator[dict[ClusterRef, str]]:
    """Serve both clusters from another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    serving = context.Process(target=_serve, args=(there, case), daemon=True)
    serving.start()
    try:
        yield dict(zip((_SOURCE, _DESTINATION), here.recv(), strict=True))
    finally:
        here.send(None)
        serving.join()


def _serve(parent: Connection, case: _Case) -> None:
    with running(FakeCluster("a")) as source, running(FakeCluster("b")) as target:
        for cluster in (source, target):
            with cluster.lock:
                cluster.create_topic(_TOPIC)
                equal, altered = _batch(case, "v"), _batch(case, "x")
                for number in range(case.records // case.per_batch):
                    is_altered = cluster is target and case.altered_every and not number % case.altered_every
                    cluster.append(_TOPIC, altered if is_altered else equal)
        document = {
            "next_offset": case.records,
            "written_ms": 1,
            "ledger": {"start": 0, "counts": {"mirrored": case.records}},
            "map": {"first": 0, "sealed": 0, "runs": [[0, 0, case.records]]},
            "source_id": "",
            "epoch": -1,
            "target_id": "",
            "clean": True,
        }
        key = main_key(LaneKey(GroupName("state"), TopicPartition(_TOPIC, 0)))
        with target.lock:
            target.create_topic("headrace-progress", 1, cleanup_policy="compact")
            target.write("headrace-progress", [(1, key, json.dumps(document).encode(), [])])
        parent.send((source.address, target.address))
        parent.recv()


def _batch(case: _Case, letter: str) -> bytes:
    content: list[batches.Content] = [
        (1_000, b"%d" % n, letter.encode() * _VALUE_BYTES, []) for n in range(case.per_batch)
    ]
    return batches.build(content, codec=case.codec)
