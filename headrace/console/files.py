"""Reads and writes text files for commands."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mirror.errors import InvalidRequest

_OF_THE_SYSTEM: Final = ("/dev", "/proc")
"""Folders that contain devices and streams instead of files, such as the standard output of the command."""


def read_file(path: Path) -> str:
    """Read a UTF-8 text file, with or without a byte order mark.

    Raises InvalidRequest for invalid UTF-8; OSError with the name of the file.
    """
    try:
        with _named(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not valid UTF-8: {error.reason} at byte {error.start}") from error


def read_stdin() -> str:
    """Read all of standard input. Raises InvalidRequest for invalid UTF-8."""
    try:
        return sys.stdin.read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"stdin is not valid UTF-8: {error.reason} at byte {error.start}") from error


def write_file(path: Path, content: str | bytes) -> None:
    """Replace the content of a file atomically. Raises OSError with the name of the file.

    A device or a pipe is written directly, and may receive only a part of the content.
    """
    data = content.encode() if isinstance(content, str) else content
    with _named(path):
        if _is_written_as_it_is(path):
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)


def _is_written_as_it_is(path: Path) -> bool:
    """Return whether a file must be overwritten in place: a device, a pipe, or a file in a read-only
    folder."""
    if any(path.absolute().is_relative_to(folder) for folder in _OF_THE_SYSTEM):
        return True
    return path.exists() and not (path.is_file() and os.access(path.resolve().parent, os.W_OK))


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".headrace-{os.getpid()}-{secrets.token_hex(4)}")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with draft.open("xb") as file:
            file.write(data)
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
