"""Files that commands write for people and programs."""

from __future__ import annotations

from pathlib import Path


def write_file(path: Path, text: str) -> None:
    """Replace what the file holds. Raises OSError that names the file also where the disk is full, which the
    system reports without a name."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
