"""Compiles the rooms that every batch passes through: `mypyc` makes machine code of the very same sources.

    python -m headrace.process.compilation check              whether that is done
    python -m headrace.process.compilation build              compile them into .cache/compiled

`headrace.process.machine_code` is who uses it, and says when. Of several processes that build, one does; the
others wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from headrace.process.machine_code import HOME, MODULES, WHOLE_ROOMS, build_folder, is_built

_SETUP: Final = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(name="compiled", ext_modules=mypycify(sys.argv.pop().splitlines(), opt_level="3", debug_level="0"))
"""

DONE: Final = 0
FAILED: Final = 1
NO_COMPILER: Final = 3
"""Exit codes of `check`, where FAILED means that it is still to be done, and of `build`."""


def check(home: Path = HOME) -> int:
    """DONE when there is nothing to do, NO_COMPILER when nothing can be done, else FAILED."""
    if is_built(home):
        return DONE
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return FAILED if shutil.which(compiler.split()[0]) and headers.exists() else NO_COMPILER


def build(home: Path = HOME) -> int:
    """Compile, unless that is done already. Returns an exit code; what went wrong is on stderr."""
    if check(home) != FAILED:
        return check(home)
    with _one_at_a_time(build_folder(home).parent):
        return _build(home)


@contextmanager
def _one_at_a_time(builds: Path) -> Iterator[None]:
    """The others wait here, and find it done."""
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
        status = _compile(home, work)
        if status == DONE:
            _keep(work / "made", folder)
    return status


def _keep(made: Path, folder: Path) -> None:
    """Put it in its place, whole or not at all, and remove what was compiled of older sources."""
    arriving = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.copytree(made, arriving)
    if folder.exists():
        shutil.rmtree(arriving)
    else:
        arriving.rename(folder)
    for older in folder.parent.iterdir():
        if older != folder and not older.suffix:
            shutil.rmtree(older)


def _compile(home: Path, work: Path) -> int:
    files = [file for room in WHOLE_ROOMS for file in sorted((work / room).glob("[!_]*.py"))]
    files += [work / f"{module}.py" for module in MODULES]
    settings = ["--config-file", str(home / "pyproject.toml"), "--cache-dir", str(work / "types")]
    wanted = "\n".join([*settings, *(str(file.relative_to(work)) for file in files)])
    places = ["build_ext", "--parallel", "2", "--build-lib", "made", "--build-temp", "objects", wanted]
    done = subprocess.run([sys.executable, "-c", _SETUP, *places], cwd=work, check=False)
    return DONE if done.returncode == 0 else FAILED


def main(arguments: Sequence[str]) -> int:
    """The commands above."""
    match arguments:
        case ["check"]:
            return check()
        case ["build"]:
            return build()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
