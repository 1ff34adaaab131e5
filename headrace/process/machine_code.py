"""Finds and uses the compiled data plane: the modules that process every batch.

    python -m headrace.process.machine_code MODULE [...]     run MODULE compiled, like worker processes

A build of `headrace_dev.compilation` is used only if its digest matches the current sources. Otherwise,
or with `HEADRACE_COMPILED=0` in the environment, the Python sources run. The sources behave in the same way,
but use more CPU time. This module has few imports, because every worker process imports it.
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
"""Environment variable. With the value 0, worker processes run the Python sources."""
_PACKAGE: Final = Path(__file__).parents[1]
_WINGS: Final = _PACKAGE / "wings"
HOME: Final = _WINGS if _WINGS.is_dir() else _PACKAGE.parent
"""Folder with the sources of `mirror`, in the checkout or in the installed package."""
_BUILDS: Final = Path(".cache") / "compiled"
_INSTALLED: Final = _PACKAGE / "compiled"
"""Folder of the build that is included in a wheel."""
PER_RECORD: Final = (
    "mirror/lane/batch_rewriter",
    "mirror/lane/batch_router",
    "mirror/protocol/batches/batch",
    "mirror/protocol/batches/checksum",
    "mirror/protocol/batches/compression",
    "mirror/protocol/batches/decompression",
    "mirror/protocol/batches/encoder",
    "mirror/protocol/batches/holes",
    "mirror/protocol/batches/lz4_header",
    "mirror/protocol/batches/opener",
    "mirror/protocol/batches/records",
    "mirror/protocol/batches/reframe",
    "mirror/protocol/frame",
)
"""Modules with loops over single records, which run only for batches that are merged or decompressed."""
PER_BATCH: Final = (
    "mirror/adapters/system_clock",
    "mirror/replication/concurrency",
    "mirror/client/connection",
    "mirror/client/event_loop",
    "mirror/client/frame_reader",
    "mirror/client/request",
    "mirror/lane/byte_budget",
    "mirror/lane/counters",
    "mirror/lane/flow",
    "mirror/lane/lane",
    "mirror/lane/ledger",
    "mirror/lane/memory",
    "mirror/lane/offset_map",
    "mirror/lane/batch_merge",
    "mirror/lane/out_batch",
    "mirror/lane/parts/observation",
    "mirror/lane/parts/ownership",
    "mirror/lane/parts/read",
    "mirror/lane/parts/transaction",
    "mirror/lane/progress",
    "mirror/lane/progress_decoder",
    "mirror/replication/channels/read_plan",
    "mirror/lane/rules",
    "mirror/protocol/fetch",
    "mirror/protocol/fetch_session",
    "mirror/protocol/produce",
    "mirror/replication/channels/ahead_connections",
    "mirror/replication/channels/fetch_channel",
    "mirror/replication/channels/fetcher",
    "mirror/replication/channels/parallel_writes",
    "mirror/replication/channels/produce_channel",
    "mirror/replication/channels/read_ahead",
    "mirror/replication/channels/sender",
    "mirror/replication/channels/write_connections",
    "mirror/replication/channels/write_order",
    "mirror/replication/handlers/ack_handler",
    "mirror/replication/handlers/fetch_failures",
    "mirror/replication/handlers/fetch_handler",
    "mirror/replication/handlers/produce_failures",
    "mirror/replication/lanes/delivery",
    "mirror/replication/lanes/source_ends",
)
"""Modules that run at least once per batch."""
MODULES: Final = (*PER_RECORD, *PER_BATCH)
"""All modules that are compiled."""
_MAKER: Final = Path("headrace_dev") / "compilation"
"""Code that compiles the data plane. In a checkout, it is a part of the digest of a build."""

COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"
_SUFFIX: Final = importlib.machinery.EXTENSION_SUFFIXES[0]


def worker_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module in a worker process."""
    return [sys.executable, "-m", "headrace.process.machine_code", module, *arguments]


def build_folder(home: Path = HOME) -> Path:
    """Return the folder in which a build of the sources in `home` is stored. It may not exist yet."""
    return home / _BUILDS / _digest(home, sorted((home / _MAKER).glob("*.py")))


def installed_name(home: Path) -> str:
    """Return the name of a wheel's folder of compiled modules: a digest of the sources only, because wheels
    do not contain the compiler."""
    return _digest(home, ())


def _digest(home: Path, makers: Sequence[Path]) -> str:
    """Return a digest of the data plane's sources and of the code that compiles them, independent of their
    location."""
    digest = hashlib.sha256(_SUFFIX.encode())
    for file in (Path(__file__), *makers):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    for file in sorted((home / "mirror").rglob("*.py")):
        digest.update(os.path.relpath(file, home).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


def is_built(home: Path = HOME) -> bool:
    """Return whether `home` contains a build of exactly the current sources."""
    return build_folder(home).is_dir()


def found(home: Path = HOME) -> Path | None:
    """Return the folder of the compiled modules that worker processes use; None if they run the Python
    sources."""
    if os.environ.get(SWITCH) == "0":
        return None
    folder = build_folder(home)
    installed = _INSTALLED / folder.name
    return next((path for path in (folder, installed) if path.is_dir()), None)


def take(home: Path = HOME) -> bool:
    """Make this process import the compiled modules instead of the sources. Return False if no build exists.

    Call this before any compiled module is imported.
    """
    folder = found(home)
    if folder is None:
        return False
    sys.path.append(str(folder))  # for the library shared by the modules
    for room in {module.rpartition("/")[0] for module in MODULES}:
        importlib.import_module(room.replace("/", ".")).__path__.insert(0, str(folder / room))
    return True


def data_plane() -> str:
    """Return `compiled` or `interpreted`, depending on which modules this process has imported."""
    modules = [importlib.import_module(module.replace("/", ".")) for module in MODULES]
    return COMPILED if all(str(module.__file__).endswith(_SUFFIX) for module in modules) else INTERPRETED


def main(arguments: Sequence[str]) -> int:
    """Run the module that the first argument names, with the remaining arguments."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    take()
    sys.argv = [*arguments]
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
