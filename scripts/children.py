"""Runs the commands of a set-up, each in a new session. All are killed when the process that started them
ends."""

from __future__ import print_function

import os
import signal
import subprocess
import sys
import time

_TICK_SECONDS = 0.25
_SAY_SECONDS = 15


class Child(object):
    """A running command, whose output is appended to its log."""

    def __init__(self, process, log):
        self.process = process
        self.log = log
        self.began = time.monotonic()
        self.ended = None

    def poll(self):
        status = self.process.poll()
        if status is not None and self.ended is None:
            self.ended = time.monotonic()
        return status

    def seconds(self):
        """Return the run time of the command in seconds, until now or its end."""
        return (self.ended or time.monotonic()) - self.began


class Children(object):
    """Child processes of a set-up, killed on a signal and when the parent of this process dies."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []
        self.inherited = ()  # descriptors that children inherit
        self.parent = os.getppid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        self.kill()
        sys.exit(128 + number)

    def kill(self):
        for child in self.running:
            if child.process.poll() is None:
                try:
                    os.killpg(child.process.pid, signal.SIGKILL)
                except OSError:
                    continue
                child.process.wait()

    def begin(self, arguments, says, log, environment=None):
        print("setup: " + says, flush=True)
        with open(log, "ab") as file:
            return self._start(arguments, log, stdout=file, stderr=file, env=environment)

    def run(self, arguments, says, log, environment=None):
        """Run a command and return its exit status, with a progress line if it takes long."""
        return self.wait(self.begin(arguments, says, log, environment), "")

    def run_shown(self, arguments):
        """Run a command on the terminal and return its exit status."""
        return self.wait(self._start(arguments, None), None)

    def wait(self, child, waits_for):
        """Wait for a child process and return its exit status. Prints the seconds every 15 s unless
        `waits_for` is None."""
        shown = time.monotonic()
        while child.poll() is None:
            try:
                child.process.wait(timeout=_TICK_SECONDS)
            except subprocess.TimeoutExpired:
                self.check_parent()
            for one in self.running:
                one.poll()
            if waits_for is not None and time.monotonic() - shown > _SAY_SECONDS:
                shown = time.monotonic()
                print(
                    "setup: … {} {:.0f} s".format(waits_for, child.seconds()).replace("  ", " "), flush=True
                )
        return child.process.returncode

    def pause(self):
        time.sleep(_TICK_SECONDS)
        self.check_parent()

    def check_parent(self):
        if os.getppid() != self.parent:
            self.kill()
            sys.exit(1)

    def _start(self, arguments, log, **options):
        process = subprocess.Popen(
            arguments,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self.inherited,
            **options,
        )
        child = Child(process, log)
        self.running.append(child)
        return child
