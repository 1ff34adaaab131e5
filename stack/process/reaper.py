"""Runs one command and ends it when the process that started it, the holder, ends.

`python reaper.py HOLDER_PID GRACE_SECONDS LOG_FILE RELEASABLE COMMAND…`, standard library only and quick to
start. The holder keeps the other end of this program's stdin, so end-of-file means that the holder has died,
for whatever reason. At end-of-file, or on a termination signal, this program sends SIGTERM to the command's
process group and to every process that the command left behind, and SIGKILL after the grace period. The byte
`r` releases a releasable command: this program exits and the command continues. The first line on stdout is
the command's pid, or `!` and the reason why it could not start. The exit status is the command's, or 128 +
the number of the signal that ended it.

On Linux, a command that is not releasable also dies if this process is killed.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CAN_NOT_START = 127
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _spawn(command: list[str], log_file: str, dies_with_us: bool) -> int:
    """Fork and exec in a new session; raises OSError with the reason of exec."""
    reaper = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            if dies_with_us:
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != reaper:
                    os._exit(_CAN_NOT_START)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for number in (*_ENDING, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            output = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.execvpe(command[0], command, os.environ)  # noqa: S606
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(_CAN_NOT_START)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        refusal = answer.read()
    if refusal:
        os.waitpid(pid, 0)
        raise OSError(int(refusal), os.strerror(int(refusal)), command[0])
    return pid


class Reaper:
    """Watches the command, the holder and this process's signals; see the module's docstring."""

    def __init__(self, holder: int, grace_seconds: float, releasable: bool) -> None:
        self.holder = holder
        self.grace_seconds = grace_seconds
        self.releasable = releasable
        self.child = 0
        self.status: int | None = None
        self.is_ending = False
        self._bell, bell = os.pipe()
        for end in (self._bell, bell):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        for number in _ENDING:
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _on_end(self, *_: object) -> None:
        self.is_ending = True

    def keep(self) -> int:
        """Wait until the command has ended; return its exit status, or 0 once released."""
        released = False
        try:
            self._send_pid()
            while self.status is None and not self.is_ending and not released:
                released = self._listen(1.0) and self.releasable
                self._reap()
            if self.status is None and not released:
                self._end()
        finally:
            if not released:
                self._signal(signal.SIGKILL)
                self._kill_leftovers()
        code = os.waitstatus_to_exitcode(self.status or 0)
        return code if code >= 0 else 128 - code

    def _send_pid(self) -> None:
        """Write the command's pid to stdout.

        If the holder has died meanwhile, the write fails and the command ends.
        """
        try:
            os.write(1, f"{self.child}\n".encode())
        except BrokenPipeError:
            self.is_ending = True
        os.close(1)

    def _listen(self, seconds: float) -> bool:
        """Sleep until an event; return True if the holder releases the command."""
        ready, _, _ = select.select([0, self._bell], [], [], seconds)
        if self._bell in ready:
            self._drain_bell()
        if 0 in ready:
            word = os.read(0, 1)
            self.is_ending = self.is_ending or not word
            return word == b"r"
        if os.getppid() != self.holder:
            self.is_ending = True
        return False

    def _drain_bell(self) -> None:
        try:
            while os.read(self._bell, 512):
                pass
        except BlockingIOError:
            return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status

    def _end(self) -> None:
        if self.grace_seconds > 0:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            deadline = time.monotonic() + self.grace_seconds
            while self.status is None and time.monotonic() < deadline:
                select.select([self._bell], [], [], deadline - time.monotonic())
                self._drain_bell()
                self._reap()
        while self.status is None:
            self._signal(signal.SIGKILL)
            select.select([self._bell], [], [], 0.2)
            self._drain_bell()
            self._reap()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.child, number)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise

    def _kill_leftovers(self) -> None:
        """Kill processes that the command left behind; the kernel has made them children of this process."""
        while left := _children_of(os.getpid()):
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, 0)


def _children_of(parent: int) -> list[int]:
    if not os.path.isdir("/proc/self"):
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    fields = stat.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def main(arguments: list[str]) -> int:
    """Run the command; see the module's docstring."""
    holder, grace_seconds, log_file, releasable, *command = arguments
    reaper = Reaper(int(holder), float(grace_seconds), releasable == "1")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        reaper.child = _spawn(command, log_file, dies_with_us=not reaper.releasable)
    except OSError as error:
        os.write(1, f"!{error.filename}: {error.strerror}\n".encode())
        return _CAN_NOT_START
    return reaper.keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
