"""Test the slots of a pool with real processes, whose channels other processes may keep open."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mirror.worker.channel import WorkerGone
from mirror.worker.pool import Inbox, PoolLimits, WorkerPool
from tests.fakes.clock import ManualClock

_STARTS_A_CHILD = "sleep 600 & echo started; exec sleep 600"


class Holders:
    """Workers that each have a child process that inherits the channel."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def spawn(self, _number: int, channel: socket.socket) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sh", "-c", _STARTS_A_CHILD],
            pass_fds=(channel.fileno(),),
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def holders() -> Iterator[Holders]:
    made = Holders()
    yield made
    made.end()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def pool(holders: Holders, clock: ManualClock, inbox: Inbox) -> Iterator[WorkerPool]:
    made = WorkerPool(holders.spawn, 1, inbox, clock, PoolLimits(1.0, 20.0))
    made.start()
    yield made
    made.kill()


def test_the_channel_of_a_killed_worker_is_read_no_more_when_its_successor_starts(pool: WorkerPool) -> None:
    (worker,) = pool.workers
    reader = worker.reader
    assert reader is not None
    assert reader.is_alive()
    pool.kill()
    assert not reader.is_alive()
    pool.check()
    assert worker.process is not None
    assert worker.reader is not reader


def test_a_worker_that_has_ended_is_replaced_though_its_channel_stays_open(
    pool: WorkerPool, clock: ManualClock, inbox: Inbox
) -> None:
    (worker,) = pool.workers
    first = worker.process
    assert first is not None
    first.kill()
    first.wait()
    pool.check()
    assert inbox.empty(), "its last messages may still be unread"
    clock.advance(2.0)
    pool.check()
    gone = inbox.get_nowait()
    assert isinstance(gone, WorkerGone)
    assert pool.speaker(gone) is worker
    pool.bury(worker, failed=True)
    clock.advance(1.0)
    assert pool.check() == [worker]
    assert worker.process is not None
    assert worker.process.pid != first.pid
