"""Records of running servers: stale records and reused process ids do no harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stack.process.records import ProcessRecord, identity_of, read_record, write_record
from tests.patience import wait_until


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a new process group."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_record_reads_back(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    record = ProcessRecord.of("source", stranger.pid)
    write_record(tmp_path / "running" / "source.json", record)
    assert read_record(tmp_path / "running" / "source.json") == record
    assert record.is_alive()
    assert [file.name for file in (tmp_path / "running").iterdir()] == ["source.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "17", '{"name": "source"}', '{"name": 1, "pid": "x"}'])
def test_a_file_that_is_no_record_counts_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "source.json"
    assert read_record(file) is None
    file.write_text(text)
    assert read_record(file) is None


def test_a_zombie_is_gone() -> None:
    process = subprocess.Popen(["sleep", "0"])
    try:
        wait_until(lambda: identity_of(process.pid) is None)
        assert Path(f"/proc/{process.pid}").exists()
    finally:
        process.wait()


_ENDS_ITS_FIRST_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_still_runs() -> None:
    command = [sys.executable, "-c", _ENDS_ITS_FIRST_THREAD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        record = ProcessRecord.of("source", process.pid)
        assert record.is_alive()
        record.end(0)
        assert not record.is_alive()


def test_a_dead_process_is_gone_and_ending_it_does_nothing(stranger: subprocess.Popen[bytes]) -> None:
    record = ProcessRecord.of("source", stranger.pid)
    stranger.kill()
    stranger.wait()
    assert not record.is_alive()
    assert record.memory_mib() is None
    record.end(5)


def test_a_recycled_process_id_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    stale = replace(ProcessRecord.of("source", stranger.pid), identity="an earlier boot/4711")
    assert not stale.is_alive()
    stale.end(0)
    stale.signal(signal.SIGKILL)
    assert stranger.poll() is None


def test_two_processes_never_share_an_identity(stranger: subprocess.Popen[bytes]) -> None:
    assert identity_of(stranger.pid) != identity_of(os.getpid())
    assert identity_of(os.getpid()) == identity_of(os.getpid())


@pytest.mark.parametrize("grace_seconds", [5.0, 0.0])
def test_a_live_one_is_ended(stranger: subprocess.Popen[bytes], grace_seconds: float) -> None:
    ProcessRecord.of("source", stranger.pid).end(grace_seconds)
    assert stranger.wait() == (-signal.SIGTERM if grace_seconds else -signal.SIGKILL)


def test_a_deaf_one_is_killed_after_the_grace() -> None:
    program = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"deaf\n"
        ProcessRecord.of("source", process.pid).end(0.2)
        assert process.wait() == -signal.SIGKILL
