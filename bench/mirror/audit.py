"""Audit of a topic with a million records: peak memory and processor time, for equal and differing copies.

Both clusters are fake brokers in a process of their own, so the figures are those of the audit alone.
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
from typing import Final

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

_RECORDS: Final = 1_000_000
_PER_BATCH: Final = 500
_VALUE_BYTES: Final = 200
_TOPIC: Final = "t"
_SOURCE, _DESTINATION = ClusterRef("source"), ClusterRef("destination")
_ROWS: Final = (("equal batches", ""), ("equal records, decoded for sums", ""), ("every record altered", "x"))


def main() -> None:
    """Print one row for each kind of copy."""
    print(f"\n{_RECORDS:,} records of {_VALUE_BYTES} bytes in batches of {_PER_BATCH}, one partition\n")
    print("copy                             seconds  CPU s  MB more at the peak  equal    altered")
    for name, change in _ROWS:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            print(pool.submit(_row, name, change).result(), flush=True)


def _row(name: str, change: str) -> str:
    with _clusters(change) as addresses:
        job = VerifyJob(_SOURCE, _DESTINATION, TopicSelection(_TOPIC), state="state", allows_expired=True)
        job = replace(job, sums="decoded" in name)
        before, began, began_cpu = _peak_mb(), time.monotonic(), time.process_time()
        verdict = _audit(addresses, job)
        seconds, cpu = time.monotonic() - began, time.process_time() - began_cpu
        counts = verdict.comparison.found.counts
        more = _peak_mb() - before
    return f"{name:33}{seconds:6.1f} {cpu:6.1f} {more:20.1f}  {counts.equal:<8} {counts.altered}"


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
def _clusters(change: str) -> Iterator[dict[ClusterRef, str]]:
    """Serve both clusters from another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    serving = context.Process(target=_serve, args=(there, change), daemon=True)
    serving.start()
    try:
        yield dict(zip((_SOURCE, _DESTINATION), here.recv(), strict=True))
    finally:
        here.send(None)
        serving.join()


def _serve(parent: Connection, change: str) -> None:
    with running(FakeCluster("a")) as source, running(FakeCluster("b")) as target:
        for cluster, extra in ((source, ""), (target, change)):
            with cluster.lock:
                cluster.create_topic(_TOPIC)
                value = (extra + "v" * _VALUE_BYTES)[:_VALUE_BYTES].encode()
                content: list[batches.Content] = [(1_000, b"%d" % n, value, []) for n in range(_PER_BATCH)]
                data = batches.build(content)
                for _ in range(_RECORDS // _PER_BATCH):
                    cluster.append(_TOPIC, data)
        document = {
            "next_offset": _RECORDS,
            "written_ms": 1,
            "ledger": {"start": 0, "counts": {"mirrored": _RECORDS}},
            "map": {"first": 0, "sealed": 0, "runs": [[0, 0, _RECORDS]]},
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
