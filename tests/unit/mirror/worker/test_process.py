"""Test that a worker process copies only while its lease lasts."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, cast

import pytest

from mirror.model.datastreams.lanes import LaneEvent
from mirror.ports import CopyEngine
from mirror.worker.process import LeaseOver, Worker
from mirror.worker.protocol import ExtendLease, Message, encode_message
from mirror.worker.reports import WorkerReports
from tests.fakes.clock import ManualClock

LEASE_SECONDS: Final = 10.0


class Engine:
    """An engine that counts its rounds."""

    def __init__(self) -> None:
        self.rounds = 0

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        self.rounds += 1
        return ()


class FreezingReports:
    """Reports during which the process freezes in the third round, for the duration of its lease."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._rounds = 0

    def due(self, now: float) -> Sequence[Message]:
        self._rounds += 1
        if self._rounds == 3:
            self._clock.advance(LEASE_SECONDS)
        return ()


def test_one_that_was_frozen_beyond_its_lease_copies_no_more() -> None:
    clock, engine = ManualClock(), Engine()
    worker_side, control_side = socket.socketpair()
    with worker_side, control_side:
        control_side.sendall(encode_message(ExtendLease(clock.monotonic() + LEASE_SECONDS)))
        reports = cast(WorkerReports, FreezingReports(clock))
        worker = Worker(worker_side, cast(CopyEngine, engine), reports, clock, "interpreted")
        with pytest.raises(LeaseOver):
            worker.run()
    assert engine.rounds == 3
