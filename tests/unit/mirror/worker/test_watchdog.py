"""Test the watchdog: it ends a process whose loop hangs, and prints the stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys, threading
from mirror.worker.process import Watchdog
how, longest, wait = sys.argv[1], float(sys.argv[2]), threading.Event().wait
dog = Watchdog(longest)
dog.reset()
if how == "stops":
    for _ in range(20):
        wait(longest / 16)
        dog.reset()
    dog.stop()
    wait(1.2 * longest)
    sys.exit(0)
def the_endless_loop():
    while True: pass
the_endless_loop()
"""


def ended(how: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", PROGRAM, how, str(timeout_seconds)]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_loop_that_resets_its_watchdog_and_then_stops_it_is_left_alone() -> None:
    """A process on a busy machine responds well within the timeout."""
    assert ended("stops", 4.0).returncode == 0


def test_a_loop_that_hangs_is_ended_where_it_can_be_seen() -> None:
    done = ended("hangs", 1.0)
    assert done.returncode == 1
    assert "the_endless_loop" in done.stderr
