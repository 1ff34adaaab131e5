"""The rooms that every batch passes through, as machine code: `mypyc` compiles the very same sources.

    python -m headrace.process.compilation check              whether that is done
    python -m headrace.process.compilation build              compile them into .cache/compiled
    python -m headrace.process.compilation run MODULE [...]  run a module with them, as worker processes do

What was compiled is used only where it was made of exactly the sources that lie here, by their content;
otherwise, and where there is no C compiler, the sources themselves run, and do the same at a higher price.
So they do with `HEADRACE_COMPILED=0` in the environment.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

SWITCH: Final = "HEADRACE_COMPILED"
"""Environment variable; 0: worker processes run the sources."""
_HOME: Final = Path(__file__).parents[2]
_BUILDS: Final = Path(".cache") / "compiled"
_WHOLE_ROOMS: Final = ("mirror/protocol", "mirror/protocol/batches", "mirror/lane")
_MODULES: Final = (
    "mirror/adapters/system_clock",
    "mirror/client/cluster",
    "mirror/client/connection",
    "mirror/replication/engine",
    "mirror/replication/handlers/open_transactions",
    "mirror/replication/live_lane",
    "mirror/client/event_loop",
    "mirror/replication/handlers/fetch_handler",
    "mirror/replication/channels/sender",
    "mirror/replication/channels/fetcher",
    "mirror/replication/lane_runner",
    "mirror/replication/quotas/read_pacer",
    "mirror/client/transport",
    "mirror/replication/context",
    "mirror/replication/handlers/ack_handler",
)
"""Of other rooms: what runs once a batch or more often, and what that calls."""
_SETUP: Final = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(name="compiled", ext_modules=mypycify(sys.argv.pop().splitlines(), opt_level="3", debug_level="0"))
"""

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"
_SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))

DONE: Final = 0
FAILED: Final = 1
NO_COMPILER: Final = 3
"""Exit codes of `check`, where FAILED means that it is still to be done, and of `build`."""


def worker_command(module: str, *arguments: str) -> list[str]:
    """The command of a worker process that runs this module."""
    return [sys.executable, "-m", "headrace.process.compilation", "run", module, *arguments]


def build_folder(home: Path = _HOME) -> Path:
    """Where what is compiled of the sources in `home` lies, whether it is there or not."""
    digest = hashlib.sha256(_SUFFIX.encode())
    for file in [Path(__file__), *sorted((home / "mirror").rglob("*.py"))]:
        digest.update(os.path.relpath(file, home).encode())
        digest.update(file.read_bytes())
    return home / _BUILDS / digest.hexdigest()[:32]


def is_built(home: Path = _HOME) -> bool:
    """Whether there is machine code of exactly these sources."""
    return build_folder(home).is_dir()


def found(home: Path = _HOME) -> Path | None:
    """The machine code that worker processes run; None when the sources run."""
    if os.environ.get(SWITCH) == "0":
        return None
    folder = build_folder(home)
    return folder if folder.is_dir() else None


def take(home: Path = _HOME) -> bool:
    """Import compiled rooms instead of their sources from now on, in this process, if there are any. To be
    called before anything of them is imported."""
    folder = found(home)
    if folder is None:
        return False
    sys.path.append(str(folder))  # for the library that the modules share
    for room in {*_WHOLE_ROOMS, *(module.rpartition("/")[0] for module in _MODULES)}:
        importlib.import_module(room.replace("/", ".")).__path__.insert(0, str(folder / room))
    return True


def data_plane() -> str:
    """What the rooms that every batch passes through are in this process: compiled or interpreted."""
    rooms = [
        importlib.import_module(one.replace("/", ".")) for one in ("mirror/protocol/batches/batch", *_MODULES)
    ]
    return COMPILED if all(str(one.__file__).endswith(_SUFFIX) for one in rooms) else INTERPRETED


def check(home: Path = _HOME) -> int:
    """DONE when there is nothing to do, NO_COMPILER when nothing can be done, else FAILED."""
    if is_built(home):
        return DONE
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return FAILED if shutil.which(compiler.split()[0]) and headers.exists() else NO_COMPILER


def build(home: Path = _HOME) -> int:
    """Compile, unless that is done already. Returns an exit code; what went wrong is on stderr."""
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
    files = [file for room in _WHOLE_ROOMS for file in sorted((work / room).glob("[!_]*.py"))]
    files += [work / f"{module}.py" for module in _MODULES]
    settings = ["--config-file", str(home / "pyproject.toml"), "--cache-dir", str(work / "types")]
    wanted = "\n".join([*settings, *(str(file.relative_to(work)) for file in files)])
    places = ["build_ext", "--build-lib", "made", "--build-temp", "objects", wanted]
    done = subprocess.run([sys.executable, "-c", _SETUP, *places], cwd=work, check=False)
    return DONE if done.returncode == 0 else FAILED


def main(arguments: Sequence[str]) -> int:
    """The commands above."""
    match arguments:
        case ["check"]:
            return check()
        case ["build"]:
            return build()
        case ["run", module, *rest]:
            take()
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            return DONE
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
