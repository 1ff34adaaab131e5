"""Test faults of workers while an instance stops and starts workers itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.chaos.service.acts import acts_on
from tests.chaos.service.schedule import Fault, Kind
from tests.chaos.service.site import Site
from tests.patience import PATIENCE_SECONDS
from tests.running import RunningInstance

_IDLE = [sys.executable, "-c", "input()"]


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(_IDLE, stdin=subprocess.PIPE) as process, ExitStack() as stack:
        stack.callback(process.kill)
        yield process


@pytest.fixture
def gone() -> psutil.Process:
    """Return a process that has exited."""
    with subprocess.Popen(_IDLE, stdin=subprocess.PIPE) as process:
        return psutil.Process(process.pid)


@pytest.mark.parametrize("kind", [Kind.WORKER_KILLED, Kind.WORKER_FROZEN])
def test_a_worker_that_runs_is_hit_though_others_end_meanwhile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    running: subprocess.Popen[bytes],
    gone: psutil.Process,
    kind: Kind,
) -> None:
    looks = [[], [gone], [], [psutil.Process(running.pid)]]
    monkeypatch.setattr(RunningInstance, "pid", property(lambda _: psutil.Process().pid))
    monkeypatch.setattr(psutil.Process, "children", lambda _: looks.pop(0))
    outcome = acts_on(Site(tmp_path, 1))[kind](Fault(0.0, 0.1, kind, 0.5, at_leader=False))
    assert outcome.victim == "instance-1 worker 0"
    assert not looks
    if kind is Kind.WORKER_FROZEN:
        running.communicate(b"\n", PATIENCE_SECONDS)
    assert running.wait(PATIENCE_SECONDS) == (-signal.SIGKILL if kind is Kind.WORKER_KILLED else 0)
