"""Compilation and downloads that the first demonstration of a checkout runs while its servers start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.process.machine_code import HOME
from headrace_dev.compilation import builds
from stack.jars.download import JarFolder
from stack.process.managed_process import ManagedProcess

_SAY_SECONDS: Final = 15.0
_SPARK: Final = "spark"


class DemoPreparation:
    """Compiles the data plane, because worker processes wait for the compilation, and downloads the jars that
    the Spark job would otherwise download itself. Both subprocesses end with their parent."""

    def __init__(self, home: Path, report: Callable[[str], None], checkout: Path = HOME) -> None:
        self._log_file = home / "compile.log"
        self._jars_log = home / "jars.log"
        self._report = report
        self._checkout = checkout
        self._began = 0.0
        self._compiler: ManagedProcess | None = None
        self._jars: ManagedProcess | None = None

    def begin(self) -> None:
        """Start the subprocesses that are needed. An installation from a wheel is not compiled."""
        self._began = time.monotonic()
        if (self._checkout / "pyproject.toml").exists() and builds.check(self._checkout) == builds.FAILED:
            self._report("compiling the data plane in the background (only once); workers wait for it")
            command = [sys.executable, "-m", "headrace_dev.compilation", "build"]
            self._compiler = self._start("the compiler", command, self._log_file)
        if JarFolder(_SPARK).missing():
            command = [sys.executable, "-m", "stack.jars", "fetch", _SPARK]
            self._jars = self._start("the download", command, self._jars_log)

    def finish_compiling(self) -> None:
        """Wait for a running compilation. If the compilation fails, workers run the interpreted data
        plane."""
        if self._compiler is None:
            return
        while (status := self._compiler.wait(_SAY_SECONDS)) is None:
            self._report(f"waiting for the compilation of the data plane, {self._seconds():.0f} s")
        self._compiler = None
        if status == builds.DONE:
            self._report("the data plane is compiled")
        else:
            self._report(f"cannot compile the data plane; it runs interpreted, see {self._log_file}")

    def stop(self) -> None:
        """Kill the subprocesses that are still running."""
        for process in (self._compiler, self._jars):
            if process is not None:
                process.kill()

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _start(self, name: str, command: list[str], log_file: Path) -> ManagedProcess:
        log_file.unlink(missing_ok=True)
        return ManagedProcess(name, command, log_file=log_file, directory=self._checkout).start()
