"""Test that the demonstration leaves no processes behind, however and whenever it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from headrace_dev.demo.processes import FIRST_REST_PORT
from headrace_dev.demo.scenario import INSTANCES
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import QUICK_JAVA, free_offset

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
MARK = "DEMO_TEST_MARK"


class Demo:
    """Running demonstration; all its processes inherit a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid4().hex
        self.log_file = folder / "demo.log"
        # All below the range of ephemeral ports, of which other tests use many.
        rest = range(FIRST_REST_PORT, FIRST_REST_PORT + len(INSTANCES))
        offset = free_offset(range(-1000, 400), rest)
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace_dev", "demo", "--port-offset", str(offset)],
                cwd=folder,
                env={**os.environ, **QUICK_JAVA, MARK: self.mark},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self, text: str) -> bool:
        assert self.process.poll() is None, self.log_file.read_text()[-2000:]
        return text in self.log_file.read_text()

    def left_behind(self) -> list[str]:
        found = []
        for number in psutil.pids():
            try:
                process = psutil.Process(number)
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path)
    yield running
    if running.process.poll() is None:
        os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait()


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGKILL, "starting two Kafka clusters"),
        (signal.SIGINT, "source: ready"),
        (signal.SIGTERM, "source: ready"),
        (signal.SIGKILL, "datastream created"),
    ],
)
def test_nothing_is_left_behind(demo: Demo, number: signal.Signals, moment: str) -> None:
    wait_until(lambda: demo.said(moment), f"the demonstration says {moment!r}")
    assert len(demo.left_behind()) >= 1
    os.kill(demo.process.pid, number)
    demo.process.wait(PATIENCE_SECONDS)
    assert demo.process.returncode != 0
    wait_until(lambda: not demo.left_behind(), f"all gone; see {demo.log_file}")
