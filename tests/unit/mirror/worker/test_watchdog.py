"""Test the watchdog: it ends a process whose loop hangs, and prints the stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys, threading
from mirror.worker.watchdog import Watchdog
dog, wait = Watchdog(1.0), threading.Event().wait
for _ in range(40):
    dog.turn()
    wait(0.05)
if sys.argv[1] == "rests":
    dog.rest()
    wait(1.5)
    sys.exit(0)
def the_endless_loop():
    while True: pass
the_endless_loop()
"""


def ended(how: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", PROGRAM, how]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_loop_that_turns_and_then_rests_is_left_alone() -> None:
    assert ended("rests").returncode == 0


def test_a_loop_that_hangs_is_ended_where_it_can_be_seen() -> None:
    done = ended("hangs")
    assert done.returncode == 1
    assert "the_endless_loop" in done.stderr
