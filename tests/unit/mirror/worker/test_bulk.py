"""Test that leases reach a worker in time among bulk messages, with real processes and socket pairs."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import tests.fakes.idle_worker as idle_worker
from mirror.adapters.system_clock import SystemClock
from mirror.model.datastreams.lanes import LaneKey, LaneSpec, LaneStarted
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.identifiers import Epoch
from mirror.worker.channel import WorkerGone, WorkerMessage
from mirror.worker.pool import Inbox, PooledWorker, PoolLimits, WorkerPool
from mirror.worker.protocol import ExtendLease, LaneNews, StartLanes
from tests.builders import a_spec

ROOT: Final = Path(__file__).parents[4]
LEASE_SECONDS: Final = 12.0
INTERVAL_SECONDS: Final = 6.0
"""Interval between iterations of the control process; it extends a lease twice in its duration."""
LONG: Final = CopyPolicy(transforms=tuple(f"drop-header:{number}{'x' * 970}" for number in range(10)))


def spawn(_number: int, channel: socket.socket) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, idle_worker.__file__, str(channel.fileno())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(arguments, pass_fds=[channel.fileno()], env=environment)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(spawn, 1, Inbox(), SystemClock(), PoolLimits(1.0, 60.0))
    made.start()
    yield made
    made.kill()


def lanes(count: int, group: str, policy: CopyPolicy) -> list[LaneSpec]:
    return [a_spec(f"t-{number}", group=group, policy=policy) for number in range(count)]


def unique(count: int, group: str) -> list[LaneSpec]:
    """Return lanes with different policies, of about 10 kB each."""
    line = "x" * 960
    return [
        a_spec(
            f"t-{n}", group, policy=CopyPolicy(transforms=tuple(f"drop-header:{n}{line}" for _ in range(10)))
        )
        for n in range(count)
    ]


def started_by(pool: WorkerPool, specs: list[LaneSpec]) -> set[LaneKey]:
    """Return the lanes that the worker started, with a lease extension in every iteration."""
    (worker,) = pool.workers
    inbox, clock = pool._inbox, SystemClock()
    pool.send(worker, ExtendLease(clock.monotonic() + LEASE_SECONDS))
    pool.send(worker, StartLanes(Epoch(1), tuple(specs)))
    started: set[LaneKey] = set()
    while len(started) < len(specs):
        pool.send(worker, ExtendLease(clock.monotonic() + LEASE_SECONDS))
        pool.check()
        until = clock.monotonic() + INTERVAL_SECONDS
        while len(started) < len(specs) and (left := until - clock.monotonic()) > 0:
            try:
                started |= heard(worker, inbox.get(timeout=left))
            except queue.Empty:
                break
    return started


def heard(worker: PooledWorker, item: object) -> set[LaneKey]:
    assert not isinstance(item, WorkerGone), worker.process and worker.process.wait()
    if isinstance(item, WorkerMessage) and isinstance(item.message, LaneNews):
        return {event.key for event in item.message.events if isinstance(event, LaneStarted)}
    return set()


@pytest.mark.parametrize(
    "specs",
    [
        pytest.param(lanes(190, "long", LONG) + lanes(10, "good", CopyPolicy()), id="one policy, 2 MB"),
        pytest.param(unique(2_000, "long") + lanes(10, "good", CopyPolicy()), id="20 MB"),
        pytest.param(
            lanes(10_000, "one", CopyPolicy()) + lanes(10_000, "two", CopyPolicy()), id="20,000 lanes"
        ),
    ],
)
def test_a_worker_keeps_its_lease_while_it_is_sent_its_lanes(pool: WorkerPool, specs: list[LaneSpec]) -> None:
    assert started_by(pool, specs) == {spec.key for spec in specs}
    (worker,) = pool.workers
    assert worker.slot.generation == 1
