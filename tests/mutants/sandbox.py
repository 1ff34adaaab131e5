"""A copy of the repository in which faults are planted and tests run. The working tree stays untouched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from tests.mutants.fault import Fault
from tests.mutants.trial import Selection

_LONGEST_TEST_SECONDS: Final = 120
"""Limit for one test: many faults make something wait for ever."""
_LONGEST_RUN_SECONDS: Final = 3600
_CACHE: Final = ".cache/pytest"
_UNSHRUNK: Final = "tests.mutants.unshrunk"
_SAME_EVERY_DAY: Final = {"PYTHONDONTWRITEBYTECODE": "", "SIMULATION_FIRST": "0"}
"""Keep bytecode, so that only the first run compiles; fix seeds that depend on the date."""
_PASSED, _FAILED, _INTERRUPTED, _NO_TESTS = 0, 1, 2, 5
"""Exit codes of pytest. A test module that cannot be imported interrupts it."""


def files_of(repository: Path) -> Iterator[str]:
    """Yield the files of a checkout: tracked and new ones, without those that Git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout
    yield from (name for name in listed.split("\0") if name and (repository / name).is_file())


class Sandbox:
    """A copy of `repository` in `folder`."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._sound: set[str] = set()
        """Tests known to pass without a fault."""

    def fill(self) -> None:
        """Copy the repository's files."""
        for name in files_of(self._repository):
            target = self._folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._repository / name, target)

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Plant the fault and remove it afterwards. Raises as `Fault.planted_in`."""
        file = self._folder / fault.file
        source = file.read_text(encoding="utf-8")
        self._write(file, fault.planted_in(source))
        try:
            yield
        finally:
            self._write(file, source)

    def failing_test(self, selection: Selection) -> str:
        """Run tests until one fails, and return its identifier, or "".

        Raises RuntimeError if pytest itself fails, TimeoutExpired if it does not end.
        """
        (self._folder / _CACHE / "v/cache/lastfailed").unlink(missing_ok=True)
        paths = [one for one in selection.paths if (self._folder / one.partition("::")[0]).exists()]
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    "-x",
                    "-q",
                    "-p",
                    "no:randomly",
                    "-o",
                    f"cache_dir={_CACHE}",
                ),
                f"--timeout={_LONGEST_TEST_SECONDS}",
                "--timeout-method=signal",
                *("--hypothesis-seed=0", f"--hypothesis-profile={selection.profile}"),
                *("-m", selection.marker, *paths),
            ],
            cwd=self._folder,
            env={**os.environ, **_SAME_EVERY_DAY, "PYTHONPATH": str(self._folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_LONGEST_RUN_SECONDS,
        )
        if done.returncode in (_PASSED, _NO_TESTS):
            return ""
        if done.returncode in (_FAILED, _INTERRUPTED) and (failed := self._last_failed()):
            return failed
        raise RuntimeError(f"pytest exited with {done.returncode}:\n{done.stdout[-4000:]}")

    def require_sound(self, test: str) -> None:
        """Verify that a test passes without a fault. Raises RuntimeError if it fails."""
        if test not in self._sound:
            if failed := self.failing_test(Selection((test,))):
                raise RuntimeError(f"{failed} also fails without a fault: repair it first")
            self._sound.add(test)

    def _last_failed(self) -> str:
        file = self._folder / _CACHE / "v/cache/lastfailed"
        return next(iter(json.loads(file.read_text(encoding="utf-8"))), "") if file.exists() else ""

    def _write(self, file: Path, source: str) -> None:
        """Write the file and drop its bytecode, which Python would accept for equal size and second."""
        file.write_text(source, encoding="utf-8")
        Path(cache_from_source(file)).unlink(missing_ok=True)
