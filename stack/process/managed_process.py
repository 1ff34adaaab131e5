"""A command that cannot outlive its parent process, even after SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from stack.errors import ServerDied
from stack.process.suspension import freeze, thaw

_REAPER: Final = Path(__file__).with_name("reaper.py")
_PYTHON_OPTIONS: Final = ("-I", "-S")
_KEEPER_MARGIN_SECONDS: Final = 5.0


class ManagedProcess:
    """One command under a reaper process, for every command that must not outlive this process.

    Runs until `stop()` is called, the process that started it dies in any way, or the command exits. All
    processes that the command started end with the command. The output of the command is appended to
    `log_file`.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        log_file: Path = Path(os.devnull),
        *,
        directory: Path | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        """`environment` is added to the current one; `grace_seconds`: time between SIGTERM and SIGKILL."""
        self.name = name
        self.arguments = tuple(map(str, arguments))
        self.environment = dict(environment or {})
        self.log_file = log_file
        self.directory = directory
        self.grace_seconds = grace_seconds
        self._reaper: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._lock = threading.Lock()
        self._frozen: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """Process id (and process group) of the command itself, not of its reaper."""
        if self._pid is None:
            raise ServerDied(f"{self.name} has not been started")
        return self._pid

    def start(self, *, releasable: bool = False) -> ManagedProcess:
        """Start the command. Raises ServerDied if the command cannot be executed or is already running.

        `releasable` allows `release()` later.
        """
        if self.is_alive():
            raise ServerDied(f"{self.name} is already running as process {self.pid}")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        reaper = [sys.executable, *_PYTHON_OPTIONS, str(_REAPER), str(os.getpid())]
        options = [f"{self.grace_seconds:g}", str(self.log_file.absolute()), str(int(releasable))]
        with self.log_file.open("ab") as log:
            self._reaper = subprocess.Popen(
                [*reaper, *options, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        answer = self._first_line(self._reaper)
        if not answer.isdigit():
            self._forget()
            raise ServerDied(f"cannot start {self.name}: {answer.removeprefix('!') or 'no reaper'}")
        self._pid = int(answer)
        return self

    @staticmethod
    def _first_line(reaper: subprocess.Popen[bytes]) -> str:
        assert reaper.stdout is not None
        with reaper.stdout as stream:
            return stream.readline().decode(errors="replace").strip()

    def is_alive(self) -> bool:
        """Return whether the command, or any process that the command left behind, still runs."""
        return self._reaper is not None and self._reaper.poll() is None

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Return the exit status as subprocess does, negative for a signal; None after the timeout."""
        if self._reaper is None:
            raise ServerDied(f"{self.name} has not been started")
        try:
            code = self._reaper.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None
        self._close(self._reaper.stdin)
        return 128 - code if code > 128 else code

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group; no effect if the command has ended."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.is_alive():
                os.killpg(self.pid, number)

    def stop(self, grace_seconds: float | None = None) -> int | None:
        """Send SIGTERM, then SIGKILL after the grace period, and wait. Idempotent.

        Return the exit status, None if never started.
        """
        if self._reaper is None:
            return None
        self.signal(signal.SIGTERM)
        self.resume()
        grace = self.grace_seconds if grace_seconds is None else grace_seconds
        code = self.wait(grace)
        return self.kill() if code is None else code

    def kill(self) -> int | None:
        """Send SIGKILL to the command's process group, and wait. Idempotent."""
        if self._reaper is None:
            return None
        self.signal(signal.SIGKILL)
        code = self.wait(_KEEPER_MARGIN_SECONDS)
        if code is None:  # the reaper itself hangs, for example after SIGSTOP: the kernel kills its command
            self._reaper.kill()
            code = self.wait()
        return code

    def suspend(self) -> None:
        """Freeze the command and its descendants; all are stopped when this returns."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.is_alive():
                self._frozen = freeze(self.pid)

    def resume(self) -> None:
        """Resume a frozen command and its descendants."""
        self.signal(signal.SIGCONT)
        thaw(self._frozen)
        self._frozen = ()

    def release(self) -> int:
        """Release a command started as releasable, so that it outlives this process. Return the process id of
        the command.

        Raises ServerDied if the command has already ended.
        """
        reaper = self._reaper
        if reaper is None or reaper.stdin is None or not self.is_alive():
            raise ServerDied(f"{self.name} ended before it was detached")
        with contextlib.suppress(BrokenPipeError), reaper.stdin as stdin:
            stdin.write(b"r")
        reaper.wait()
        self._reaper = None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError as error:
            raise ServerDied(f"{self.name} ended before it was detached") from error
        return self.pid

    def __enter__(self) -> ManagedProcess:
        return self if self.is_alive() else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _forget(self) -> None:
        assert self._reaper is not None
        self._reaper.wait()
        self._close(self._reaper.stdin)
        self._reaper, self._pid = None, None

    @staticmethod
    def _close(stream: IO[bytes] | None) -> None:
        if stream is not None:
            stream.close()
