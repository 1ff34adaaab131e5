"""Run `headrace-dev calibrate` with its own brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stack.process.wait import wait_until
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


def test_what_one_core_copies_is_measured_for_every_shape() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace_dev", "calibrate", "--seconds", "10", "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    shapes = {one["shape"]: one for one in found["shapes"]}
    assert [one["batch_records"] for one in found["shapes"]] == [1, 10, 100, 100, 100]
    for one in shapes.values():
        assert 0 <= one["low"] <= one["bytes_per_second"] <= one["high"]
        assert one["records_per_second"] > 0
    assert shapes["hundred-zstd"]["batch_bytes"] < shapes["hundred"]["batch_bytes"]
    dearest = min(max(one["low"], one["bytes_per_second"] / 2) for one in shapes.values())
    assert 0.9 * dearest <= found["setting"] <= dearest


def test_an_interrupt_leaves_no_broker_and_no_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace_dev", "calibrate", "--seconds", "600"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        told = iter(running.stderr)
        assert any("batches of 1" in line for line in told)
        assert _processes_under(tmp_path)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_SECONDS) == 128 + signal.SIGINT
    wait_until(lambda: not _processes_under(tmp_path), PATIENCE_SECONDS, "nothing runs any more")
    assert not list(tmp_path.glob("headrace-calibrate-*"))


def _processes_under(folder: Path) -> list[str]:
    """Return the ids of processes whose command line names a file in the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in one.read_bytes():
                found.append(one.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has exited meanwhile
    return found
