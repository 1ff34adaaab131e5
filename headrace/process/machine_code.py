"""The modules that every batch passes through, as machine code: where it lies, and processes that run it.

    python -m headrace.process.machine_code MODULE [...]     run a module with it, as worker processes do

What `headrace.process.compilation` has compiled is used only where it was made of exactly the sources that
lie here, by their content; otherwise, and where there is no C compiler, the sources themselves run: they do
the same at a higher price. So they do with `HEADRACE_COMPILED=0` in the environment. Every worker process
imports this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SWITCH: Final = "HEADRACE_COMPILED"
"""Environment variable; 0: worker processes run the sources."""
_PACKAGE: Final = Path(__file__).parents[1]
_WINGS: Final = _PACKAGE / "wings"
HOME: Final = _WINGS if _WINGS.is_dir() else _PACKAGE.parent
"""The folder that the sources of `mirror` lie in: of the checkout, or of the installed package."""
_BUILDS: Final = Path(".cache") / "compiled"
_INSTALLED: Final = _PACKAGE / "compiled"
"""What a wheel brings."""
PER_RECORD: Final = (
    "mirror/lane/batch_router",
    "mirror/protocol/batches/batch",
    "mirror/protocol/batches/checksum",
    "mirror/protocol/batches/compression",
    "mirror/protocol/batches/holes",
    "mirror/protocol/batches/lz4_header",
    "mirror/protocol/batches/opener",
    "mirror/protocol/batches/records",
    "mirror/protocol/batches/reframe",
    "mirror/protocol/varint",
)
"""Modules whose loops run once a record where batches are merged or opened."""
PER_BATCH: Final = (
    "mirror/adapters/system_clock",
    "mirror/client/connection",
    "mirror/client/event_loop",
    "mirror/lane/counters",
    "mirror/lane/flow",
    "mirror/lane/lane",
    "mirror/lane/ledger",
    "mirror/lane/memory",
    "mirror/lane/offset_map",
    "mirror/lane/out_batch",
    "mirror/lane/progress",
    "mirror/lane/rules",
    "mirror/protocol/fetch",
    "mirror/protocol/fetch_session",
    "mirror/protocol/frame",
    "mirror/protocol/produce",
    "mirror/replication/channels/fetcher",
    "mirror/replication/channels/sender",
    "mirror/replication/handlers/ack_handler",
    "mirror/replication/handlers/fetch_handler",
    "mirror/replication/live_lane",
)
"""Modules that run once a batch or more often."""
MODULES: Final = (*PER_RECORD, *PER_BATCH)
"""What is compiled."""
_MAKER: Final = Path(__file__).with_name("compilation")
"""How it is compiled is part of what it was made of."""

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"
_SUFFIX: Final = importlib.machinery.EXTENSION_SUFFIXES[0]


def worker_command(module: str, *arguments: str) -> list[str]:
    """The command of a worker process that runs this module."""
    return [sys.executable, "-m", "headrace.process.machine_code", module, *arguments]


def build_folder(home: Path = HOME) -> Path:
    """Where what is compiled of the sources in `home` lies, whether it is there or not."""
    return home / _BUILDS / _digest(home)


def _digest(home: Path) -> str:
    """Of the sources, and of how they are compiled; the same wherever they lie."""
    digest = hashlib.sha256(_SUFFIX.encode())
    for file in (Path(__file__), *sorted(_MAKER.glob("*.py"))):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    for file in sorted((home / "mirror").rglob("*.py")):
        digest.update(os.path.relpath(file, home).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


def is_built(home: Path = HOME) -> bool:
    """Whether there is machine code of exactly these sources."""
    return build_folder(home).is_dir()


def found(home: Path = HOME) -> Path | None:
    """The machine code that worker processes run; None when the sources run."""
    if os.environ.get(SWITCH) == "0":
        return None
    folder = build_folder(home)
    installed = _INSTALLED / folder.name
    return next((one for one in (folder, installed) if one.is_dir()), None)


def take(home: Path = HOME) -> bool:
    """Import compiled modules instead of their sources from now on, in this process, if there are any. To be
    called before any of them is imported."""
    folder = found(home)
    if folder is None:
        return False
    sys.path.append(str(folder))  # for the library that the modules share
    for room in {module.rpartition("/")[0] for module in MODULES}:
        importlib.import_module(room.replace("/", ".")).__path__.insert(0, str(folder / room))
    return True


def data_plane() -> str:
    """Return what those modules are in this process: compiled or interpreted."""
    modules = [importlib.import_module(one.replace("/", ".")) for one in MODULES]
    return COMPILED if all(str(one.__file__).endswith(_SUFFIX) for one in modules) else INTERPRETED


def main(arguments: Sequence[str]) -> int:
    """Run the module that is named first, with the other arguments."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    take()
    sys.argv = [*arguments]
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
