"""What the first demonstration of a checkout makes beside the start of its servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.process.compilation import builds
from headrace.process.machine_code import HOME
from stack.jars.download import JarFolder
from stack.process.managed_process import ManagedProcess

_SAY_SECONDS: Final = 15.0
_SPARK: Final = "spark"


class Preparation:
    """Machine code of the data plane, which worker processes wait for, and the jars of the Spark job, which
    fetches them itself where this could not. Both end with the process that holds them."""

    def __init__(self, home: Path, report: Callable[[str], None], checkout: Path = HOME) -> None:
        self._log_file = home / "compile.log"
        self._jars_log = home / "jars.log"
        self._report = report
        self._checkout = checkout
        self._began = 0.0
        self._compiler: ManagedProcess | None = None
        self._jars: ManagedProcess | None = None

    def begin(self) -> None:
        """Start what is needed. What pip installs from a wheel is not compiled."""
        self._began = time.monotonic()
        if (self._checkout / "pyproject.toml").exists() and builds.check(self._checkout) == builds.FAILED:
            self._report("compiling the data plane beside this, once; workers wait for it")
            command = [sys.executable, "-m", "headrace.process.compilation", "build"]
            self._compiler = self._start("the compiler", command, self._log_file)
        if JarFolder(_SPARK).missing():
            command = [sys.executable, "-m", "stack.jars", "fetch", _SPARK]
            self._jars = self._start("the download", command, self._jars_log)

    def finish_compiling(self) -> None:
        """Wait for the machine code, if it is being made. Without it the sources run."""
        if self._compiler is None:
            return
        while (status := self._compiler.wait(_SAY_SECONDS)) is None:
            self._report(f"waiting for the data plane to be compiled, {self._seconds():.0f} s")
        self._compiler = None
        if status == builds.DONE:
            self._report("the data plane is compiled")
        else:
            self._report(f"the data plane could not be compiled and runs interpreted; see {self._log_file}")

    def stop(self) -> None:
        """End what still runs."""
        for process in (self._compiler, self._jars):
            if process is not None:
                process.kill()

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _start(self, name: str, command: list[str], log_file: Path) -> ManagedProcess:
        log_file.unlink(missing_ok=True)
        return ManagedProcess(name, command, log_file=log_file, directory=self._checkout).start()
