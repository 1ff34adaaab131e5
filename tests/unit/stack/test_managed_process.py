"""A managed command ends with its holder, whatever happens to either."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stack.errors import ServerDied
from stack.process import managed_process
from stack.process.managed_process import ManagedProcess
from stack.process.records import identity_of
from stack.process.suspension import is_stopped
from tests.patience import PATIENCE_SECONDS, wait_until

_SPINNING = """
import threading
def spin():
    while True:
        pass
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()
print("busy", flush=True)
threading.Event().wait()
"""
_STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
_PARENT = """
import subprocess, sys, time
inside = subprocess.Popen(["sleep", "600"])
outside = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(inside.pid, outside.pid, flush=True)
{then}
"""
_HOLDER = """
import sys, time
from pathlib import Path
from stack.process.managed_process import ManagedProcess
held = ManagedProcess("child", sys.argv[2:], log_file=Path(sys.argv[1]), grace_seconds=2).start()
print(held.pid, flush=True)
time.sleep(600)
"""


def _python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def _held(tmp_path: Path, arguments: list[str], grace_seconds: float = 5.0) -> ManagedProcess:
    return ManagedProcess("child", arguments, log_file=tmp_path / "log", grace_seconds=grace_seconds)


def _numbers_in(file: Path) -> list[int]:
    """Return the numbers on the first line, or nothing until it is complete."""
    text = file.read_text() if file.exists() else ""
    return [int(word) for word in text.split()] if text.endswith("\n") else []


def _is_gone(pid: int) -> bool:
    return identity_of(pid) is None


def _all_gone(pids: list[int]) -> bool:
    return all(map(_is_gone, pids))


def test_the_exit_status_is_the_commands(tmp_path: Path) -> None:
    assert _held(tmp_path, _python("raise SystemExit(7)")).start().wait(PATIENCE_SECONDS) == 7


def test_a_signal_shows_as_a_negative_status(tmp_path: Path) -> None:
    held = _held(tmp_path, ["sleep", "600"]).start()
    os.kill(held.pid, signal.SIGKILL)
    assert held.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert not held.is_alive()


def test_output_and_environment(tmp_path: Path) -> None:
    held = ManagedProcess(
        "child",
        _python("import os; print(os.environ['STACK_TEST_WORD'], os.environ['PATH'] != '', os.getcwd())"),
        {"STACK_TEST_WORD": "hello"},
        tmp_path / "logs" / "log",
        directory=tmp_path,
    )
    assert held.start().wait(PATIENCE_SECONDS) == 0
    assert held.log_file.read_text() == f"hello True {tmp_path}\n"


def test_the_pid_is_the_commands_own(tmp_path: Path) -> None:
    held = _held(tmp_path, _python("import os; print(os.getpid(), os.getpgid(0))")).start()
    assert held.wait(PATIENCE_SECONDS) == 0
    assert _numbers_in(held.log_file) == [held.pid, held.pid]


def test_what_cannot_be_executed_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match=rf"\bchild\b.*\bno-such-command: {os.strerror(errno.ENOENT)}"):
        _held(tmp_path, [str(tmp_path / "no-such-command")]).start()


def test_a_running_command_is_not_started_twice(tmp_path: Path) -> None:
    with _held(tmp_path, ["sleep", "600"]) as held, pytest.raises(ServerDied, match="already"):
        held.start()


def test_stop_ends_it_and_may_be_repeated(tmp_path: Path) -> None:
    held = _held(tmp_path, ["sleep", "600"]).start()
    assert held.stop() == -signal.SIGTERM
    assert held.stop() == -signal.SIGTERM
    assert _is_gone(held.pid)
    assert _held(tmp_path, ["sleep", "600"]).stop() is None


def test_a_command_deaf_to_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    held = _held(tmp_path, _python(_STUBBORN)).start()
    wait_until(lambda: held.log_file.read_text() == "deaf\n")
    assert held.stop(grace_seconds=0.2) == -signal.SIGKILL


def test_a_frozen_command_can_be_stopped(tmp_path: Path) -> None:
    held = _held(tmp_path, ["sleep", "600"]).start()
    held.suspend()
    assert is_stopped(held.pid)
    assert held.stop() == -signal.SIGTERM


def test_a_busy_command_stands_still_when_it_is_frozen(tmp_path: Path) -> None:
    with _held(tmp_path, _python(_SPINNING)) as held:
        wait_until(lambda: held.log_file.read_text() == "busy\n")
        for _ in range(10):
            held.suspend()
            assert is_stopped(held.pid)
            held.resume()


def test_what_is_frozen_with_a_command_continues_with_it(tmp_path: Path) -> None:
    with _held(tmp_path, _python(_PARENT.format(then="time.sleep(600)"))) as held:
        family = wait_until(lambda: _numbers_in(held.log_file))
        held.suspend()
        assert all(map(is_stopped, family))
        held.resume()
        wait_until(lambda: not any(map(is_stopped, family)))


def test_what_the_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    held = _held(tmp_path, _python(_PARENT.format(then=""))).start()
    assert held.wait(PATIENCE_SECONDS) == 0
    left = _numbers_in(held.log_file)
    assert len(left) == 2
    assert _all_gone(left)


def test_stop_ends_descendants_in_other_sessions(tmp_path: Path) -> None:
    held = _held(tmp_path, _python(_PARENT.format(then="time.sleep(600)"))).start()
    family = wait_until(lambda: _numbers_in(held.log_file))
    held.stop()
    assert _all_gone(family)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_holder(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    child = _python(_PARENT.format(then="time.sleep(600)"))
    with subprocess.Popen(
        [*_python(_HOLDER), str(log), *child], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as holder:
        assert holder.stdout is not None
        family = [int(holder.stdout.readline()), *wait_until(lambda: _numbers_in(log))]
        assert not any(map(_is_gone, family))
        holder.send_signal(number)
        holder.wait(PATIENCE_SECONDS)
    wait_until(lambda: _all_gone(family), "all processes of the command are gone")


def test_a_deaf_command_ends_with_its_holder_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen(
        [*_python(_HOLDER), str(log), *_python(_STUBBORN)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        wait_until(lambda: log.read_text() == "deaf\n")
        holder.kill()
    wait_until(lambda: _is_gone(child), "the command is gone")


def test_a_fork_of_the_holder_does_not_keep_it_alive(tmp_path: Path) -> None:
    """A forked child inherits our end of the pipe; the death of the holder must still be noticed."""
    fork = "import os, sys, time\n" + _HOLDER.replace(
        "time.sleep(600)", "forked = os.fork()\nif forked: print(forked, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [*_python(fork), str(tmp_path / "log"), "sleep", "600"], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        forked = int(holder.stdout.readline())
        try:
            holder.kill()
            wait_until(lambda: _is_gone(child), "the command is gone")
        finally:
            os.kill(forked, signal.SIGKILL)


def test_it_dies_with_its_keeper(tmp_path: Path) -> None:
    held = _held(tmp_path, ["sleep", "600"]).start()
    keeper = int(Path(f"/proc/{held.pid}/stat").read_text().split()[3])
    os.kill(keeper, signal.SIGKILL)
    assert held.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    wait_until(lambda: _is_gone(held.pid))


def test_a_released_command_stays(tmp_path: Path) -> None:
    held = _held(tmp_path, ["sleep", "600"]).start(releasable=True)
    pid = held.release()
    try:
        assert pid == held.pid
        assert not _is_gone(pid)
        assert not held.is_alive()  # no longer managed
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_command_that_ended_cannot_be_released(tmp_path: Path) -> None:
    held = _held(tmp_path, _python("raise SystemExit(3)")).start(releasable=True)
    held.wait(PATIENCE_SECONDS)
    with pytest.raises(ServerDied, match="detached"):
        held.release()


def test_a_holder_that_dies_before_it_hears_the_pid_ends_the_command(tmp_path: Path) -> None:
    """Otherwise a releasable command would keep running without a record."""
    reading, writing = os.pipe()
    os.close(reading)
    options = [str(os.getpid()), "5", str(tmp_path / "log"), "1"]
    with subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            managed_process.__file__.replace("managed_process", "reaper"),
            *options,
            "sleep",
            "600",
        ],
        stdin=subprocess.PIPE,
        stdout=writing,
    ) as keeper:
        os.close(writing)
        assert keeper.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
