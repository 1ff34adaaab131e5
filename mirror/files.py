"""Replaces files atomically and durably."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

OF_OWNER: Final = 0o600


def replace_file(path: Path, data: bytes, mode: int = OF_OWNER) -> None:
    """Replace a file atomically. Raises OSError.

    Readers see either the old or the new content, even after a crash.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with ExitStack() as undo:
        undo.callback(_remove, draft)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        undo.pop_all()
    sync_folder(path.parent)


def _remove(draft: str) -> None:
    with suppress(OSError):
        os.unlink(draft)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
