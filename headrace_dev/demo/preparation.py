"""Compiles and downloads what the first demonstration of a checkout needs, while its servers start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.process.machine_code import HOME, is_built
from stack.jars.download import JarFolder
from stack.process.managed_process import ManagedProcess

_SAY_SECONDS: Final = 15.0
_SPARK: Final = "spark"
_COMPILATION: Final = (sys.executable, "-m", "headrace_dev.compilation")
_DONE: Final = 0
_MISSING: Final = 1
"""Exit codes of the compilation's commands `check` and `build`."""


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
        """Start the compilation and the downloads that are needed. An installation from a wheel is not
        compiled."""
        self._began = time.monotonic()
        if (self._checkout / "pyproject.toml").exists() and self._is_build_missing():
            self._report("compiling the data plane in the background (only once); workers wait for it")
            self._compiler = self._start("the compiler", [*_COMPILATION, "build"], self._log_file)
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
        if status == _DONE:
            self._report("the data plane is compiled")
        else:
            self._report(f"cannot compile the data plane; it runs interpreted, see {self._log_file}")

    def stop(self) -> None:
        """Kill compilation and downloads that are still running."""
        for process in (self._compiler, self._jars):
            if process is not None:
                process.kill()

    def _is_build_missing(self) -> bool:
        """Return whether the build is missing and this machine can create it."""
        if is_built(self._checkout):
            return False
        check = subprocess.run([*_COMPILATION, "check"], cwd=self._checkout, check=False)
        return check.returncode == _MISSING

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _start(self, name: str, command: list[str], log_file: Path) -> ManagedProcess:
        log_file.unlink(missing_ok=True)
        return ManagedProcess(name, command, log_file=log_file, directory=self._checkout).start()
