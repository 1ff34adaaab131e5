"""Test that an interrupted command cleans up the processes that it started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

_PROGRAM = """
import signal, sys
from pathlib import Path
from headrace_dev.commands.stop_signals import cleaning_up

with cleaning_up(print):
    try:
        print("begun", flush=True)
        signal.pause()
    finally:
        Path(sys.argv[1]).touch()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cleans_up_and_is_named_by_the_exit_code(number: signal.Signals, tmp_path: Path) -> None:
    done = tmp_path / "done"
    command = [sys.executable, "-c", _PROGRAM, str(done)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.send_signal(number)
        assert running.wait(PATIENCE_SECONDS) == 128 + number
        assert running.stdout.read().startswith("stopping ")
    assert done.exists()
