"""Files that record the process of each server; a later process with the same id is not mistaken for the
server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

_TICK_SECONDS: Final = 0.05
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ProcessRecord:
    """A running server, for other processes to find."""

    name: str
    pid: int
    identity: str
    """Text that distinguishes this process from a later process with the same id; see `identity_of`."""
    address: str = ""
    """Address for clients; empty if the process does not listen, or if the reader of the record knows the
    address."""

    @staticmethod
    def of(name: str, pid: int, address: str = "") -> ProcessRecord:
        """Return the record of a running process."""
        return ProcessRecord(name, pid, identity_of(pid) or "gone", address)

    def is_alive(self) -> bool:
        """Return whether that same process still runs."""
        return identity_of(self.pid) == self.identity

    def memory_mib(self) -> int | None:
        """Return the resident memory of the process in MiB; None if the process has ended."""
        try:
            return psutil.Process(self.pid).memory_info().rss >> 20 if self.is_alive() else None
        except psutil.NoSuchProcess:
            return None

    def signal(self, number: int) -> None:
        """Send a signal to the process group; no effect if the process has ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def end(self, grace_seconds: float) -> None:
        """Send SIGTERM, then SIGKILL after the grace period, and wait until the process has ended."""
        if grace_seconds > 0:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            if self._ends_within(grace_seconds):
                return
        self.signal(signal.SIGKILL)
        while not self._ends_within(1.0):
            self.signal(signal.SIGKILL)

    def _ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.is_alive():
                return True
            time.sleep(_TICK_SECONDS)  # noqa: TID251 - the end of a process that is not a child sends no event
        return not self.is_alive()


def identity_of(pid: int) -> str | None:
    """Return the boot and the clock tick at which the process started; None if it has ended or is a zombie.

    A process whose first thread has ended is shown as a zombie while its other threads still run and use its
    ports. A zombie process counts as ended once its last thread has ended (`num_threads` in proc_pid_stat(5)
    is at most 1). Without /proc, returns the start time, which changes when the clock is set.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1")
    except (FileNotFoundError, ProcessLookupError):
        return None if _BOOT.exists() else _identity_without_proc(pid)
    fields = stat.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), fields[19]
    return None if state in "ZX" and threads <= 1 else f"{_BOOT.read_text().strip()}/{started}"


def _identity_without_proc(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"{process.create_time():.0f}"
    except psutil.NoSuchProcess:
        return None


def write_record(file: Path, record: ProcessRecord) -> None:
    """Write the record as JSON, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
    draft.replace(file)


def read_record(file: Path) -> ProcessRecord | None:
    """Return the record; None if the file is missing or invalid."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        name, pid, identity = str(content["name"]), int(content["pid"]), str(content["identity"])
        return ProcessRecord(name, pid, identity, str(content.get("address", "")))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
