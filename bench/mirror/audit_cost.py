"""Processor time of a continuous audit as a share of that of the copying: counts, and full.

The clusters are fake brokers in a process of their own, so the figures are those of the copying and of the
audit alone. A turn audits the records of each partition that were copied since the turn before.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Final

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.jobs.audits.auditor import Auditor
from mirror.jobs.audits.lanes import AuditedLanes, AuditOptions
from mirror.jobs.verify_job import VerifyJob
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from tests.engines import DESTINATION, SOURCE, specs
from tests.fakes.broker import batches
from tests.fakes.broker.cluster import FakeCluster, running

_TOPIC: Final = "t"
_ROWS: Final = "rows"
_VALUE_BYTES: Final = 200
_PER_BATCH: Final = 50
_PARTITIONS: Final = 50
_TURNS: Final = (6, 60, 300)
"""Batches of each partition that a turn audits."""
_LIVE_SECONDS: Final = 60.0
_LIVE_PAUSE_SECONDS: Final = 5.0
"""Time between two batches of a partition under live traffic."""


def main() -> None:
    """Print one row for each mode and amount of records."""
    print(f"{_PARTITIONS} partitions, batches of {_PER_BATCH} records of {_VALUE_BYTES} bytes\n")
    print("kB per partition and turn  mode    copying CPU s  audit CPU s  share")
    for count in _TURNS:
        for mode in (AuditMode.COUNTS, AuditMode.FULL):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                print(pool.submit(_row, mode, count).result(), flush=True)
    print(f"\na batch every {_LIVE_PAUSE_SECONDS:.0f} s, audited once in {_LIVE_SECONDS:.0f} s")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(_row, AuditMode.COUNTS, 1, is_live=True).result(), flush=True)


def _row(mode: AuditMode, count: int, *, is_live: bool = False) -> str:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    serving = context.Process(target=_serve, args=(there, count))
    serving.start()
    addresses: dict[ClusterRef, str] = dict(zip((SOURCE, DESTINATION), here.recv(), strict=True))
    bench = EngineContext(
        lambda reference: ClusterAccess(endpoints(addresses[reference])),
        CopyingOptions(),
        EngineIdentity(socket.gethostname()),
        SystemClock(),
    )
    job = VerifyJob(SOURCE, DESTINATION, TopicSelection(_TOPIC), state=f"g-{_TOPIC}", allows_expired=True)
    places = tuple(TopicPartition(_TOPIC, number) for number in range(_PARTITIONS))
    auditor = Auditor(bench, AuditOptions("bench", DESTINATION, _ROWS, 600_000, 0, 10**12))
    lanes = AuditedLanes(DatastreamName("bench"), job, mode, places)
    engine = BatchEngine(bench)
    records = count * _PER_BATCH
    costs = []
    for part in (1, 2):  # the first part opens connections
        if part == 1:
            engine.start_lanes(specs(_TOPIC, _PARTITIONS))
        elif not is_live:
            here.send(part)
            here.recv()
        before = time.process_time()
        copies = part * records
        if part > 1 and is_live:
            copies = _copy_live(engine, here) * _PER_BATCH
        while not _is_copied(engine, copies):
            engine.step(0.05)
        copied = time.process_time()
        while bench.run(auditor.turn(lanes)):
            pass
        costs = [copied - before, time.process_time() - copied]
    reports = auditor.reports[lanes.name].values()
    assert not any(one.waiting or one.faults or one.problem for one in reports)
    here.send(None)
    serving.join()
    size = (copies - records) * _VALUE_BYTES / 1_000
    return f"{size:26,.0f}  {mode.value:6}  {costs[0]:13.3f}  {costs[1]:11.3f}  {costs[1] / costs[0]:6.1%}"


def _copy_live(engine: BatchEngine, source: Connection) -> int:
    """Copy while batches are written one by one; return the number of batches of each partition."""
    batches, until = 1, time.monotonic() + _LIVE_SECONDS
    while time.monotonic() < until:
        source.send(1)
        source.recv()
        batches += 1
        pause = time.monotonic() + _LIVE_PAUSE_SECONDS
        while time.monotonic() < pause:
            engine.step(0.05)
    return batches


def _is_copied(engine: BatchEngine, offset: int) -> bool:
    lanes = [*engine.lanes.by_key.values()]
    return len(lanes) == _PARTITIONS and all(one.checkpoint >= offset and not one.dirty for one in lanes)


def _serve(parent: Connection, count: int) -> None:
    with running(FakeCluster("a")) as source, running(FakeCluster("b")) as target:
        now_ms = round(time.time() * 1_000)
        data = batches.build([(now_ms, b"%d" % n, b"v" * _VALUE_BYTES, []) for n in range(_PER_BATCH)])

        def write() -> None:
            with source.lock:
                for number in range(_PARTITIONS):
                    for _ in range(count):
                        source.append(_TOPIC, data, number)

        for cluster in (source, target):
            with cluster.lock:
                cluster.create_topic(_TOPIC, _PARTITIONS)
        with target.lock:
            target.create_topic(_ROWS, 4)
        write()
        parent.send((source.address, target.address))
        while parent.recv() is not None:
            write()
            parent.send(None)
