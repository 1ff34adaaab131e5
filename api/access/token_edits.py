"""Edits of a token file, for the command line. Each edit replaces the whole file and holds a lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from api.access.tokens import TokenEntry, read_entries
from mirror.errors import ConfigError, NotFound
from mirror.files import OF_OWNER, replace_file
from mirror.model.bounds import shown


def add_entry(path: Path, entry: TokenEntry) -> None:
    """Append a token; create a missing file, readable only by its owner. Raises ConfigError."""
    _edit(path, lambda lines: [*lines, entry.line()])


def revoke(path: Path, identity: str) -> TokenEntry:
    """Remove a token. Raises NotFound, ConfigError."""
    found = read_entries(path).get(identity)
    if found is None:
        raise NotFound(
            f"no token {shown(identity)} in {path}", advice="list the tokens with headrace token list"
        )
    _edit(path, lambda lines: [line for line in lines if line.strip() != found.line()])
    if identity in read_entries(path):
        raise ConfigError(f"cannot parse the entry of token {identity} in {path}; delete that line")
    return found


def _edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    try:
        with _alone(path.parent):
            lines: list[str] = []
            if path.exists():
                read_entries(path)
                lines = path.read_text(encoding="utf-8").splitlines()
            _replace(path, "".join(f"{line}\n" for line in change(lines)))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock against other commands that edit token files in this folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically. A new one is readable only by its owner."""
    mode = path.stat().st_mode & 0o755 if path.exists() else OF_OWNER
    replace_file(path, text.encode(), mode)
