"""Builds of the compiled data plane, one for each version of the sources.

If several processes build at the same time, one of them compiles and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from headrace.process.machine_code import HOME, build_folder, is_built

DONE: Final = 0
FAILED: Final = 1
NO_COMPILER: Final = 3
"""Exit codes of `build` and `check`.

`check` returns FAILED if the build is missing although this machine can create it.
"""


def check(home: Path = HOME) -> int:
    """Return DONE if the compiled modules exist, NO_COMPILER if they cannot be built, and FAILED
    otherwise."""
    if is_built(home):
        return DONE
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return FAILED if shutil.which(compiler.split()[0]) and headers.exists() else NO_COMPILER


def build(home: Path = HOME) -> int:
    """Compile the data plane unless its build exists. Return an exit code.

    Errors are printed on stderr.
    """
    if check(home) != FAILED:
        return check(home)
    with _one_at_a_time(build_folder(home).parent):
        return _build(home)


@contextmanager
def _one_at_a_time(builds: Path) -> Iterator[None]:
    """Lock a file during the `with` block, so that only one process builds at a time."""
    builds.mkdir(parents=True, exist_ok=True)
    with (builds / "compiling.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(home: Path) -> int:
    status = check(home)
    if status != FAILED:
        return status
    folder = build_folder(home)
    with TemporaryDirectory() as name:
        work = Path(name)
        shutil.copytree(home / "mirror", work / "mirror", ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", f"{__package__}.extensions", str(home / "pyproject.toml"), "made"]
        if subprocess.run(command, cwd=work, env=_environment(), check=False).returncode != 0:
            return FAILED
        _keep(work / "made", folder)
    return DONE


def _environment() -> dict[str, str]:
    """Return the environment variables of the compiler process.

    The variable PYTHONPATH lets Python find this package before it is installed.
    """
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _keep(build: Path, folder: Path) -> None:
    """Move the build to its final location atomically, and remove builds of older sources."""
    arriving = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.copytree(build, arriving)
    if folder.exists():
        shutil.rmtree(arriving)
    else:
        arriving.rename(folder)
    for older in folder.parent.iterdir():
        if older != folder and not older.suffix:
            shutil.rmtree(older)
