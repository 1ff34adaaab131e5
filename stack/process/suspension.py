"""Freezes processes with SIGSTOP, to simulate a machine that swaps or a virtual machine during migration."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

import psutil

from stack.process.wait import wait_until

_TIMEOUT_SECONDS: Final = 60.0
_INTERVAL_SECONDS: Final = 0.002
_STILL: Final = frozenset("TtZX")
"""States of a thread that is stopped, traced, or has ended (proc(5), /proc/PID/task/TID/stat)."""


def freeze(pid: int) -> tuple[int, ...]:
    """Stop a process and its descendants and return their process ids, parent first.

    A thread stops only when the kernel next runs it, so the function waits until the kernel reports every
    thread as stopped. The parent stops first: then it cannot start or reap children, and no process id is
    reused. Raises ProcessLookupError if the process has ended, and NotInTime if it does not stop in time.
    """
    _stop(pid)
    children = tuple(child.pid for child in psutil.Process(pid).children(recursive=True))
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            _stop(child)
    return (pid, *children)


def thaw(pids: tuple[int, ...]) -> None:
    """Resume frozen processes, the parent last."""
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Return whether the kernel reports every thread of the process as stopped or ended."""
    try:
        threads = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # a thread ended meanwhile
        return False
    return all(stat.rpartition(")")[2].split()[0] in _STILL for stat in threads)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(
        lambda: is_stopped(pid), _TIMEOUT_SECONDS, f"process {pid} stops", interval_seconds=_INTERVAL_SECONDS
    )
