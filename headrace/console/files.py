"""Text files that people give to commands, and files that commands write for people and programs."""

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
"""What is there stands for something else, such as the standard output of the command."""


def read_file(path: Path) -> str:
    """A text file as UTF-8, with or without a mark of it. Raises InvalidRequest when it is neither, OSError
    that names the file."""
    try:
        with _named(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from error


def read_stdin() -> str:
    """All of the standard input. Raises InvalidRequest when it is no UTF-8."""
    try:
        return sys.stdin.read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"stdin is no text in UTF-8: {error.reason} at byte {error.start}") from error


def write_file(path: Path, content: str | bytes) -> None:
    """Replace what the file holds. Where that fails it holds what it held: a device or a pipe, which is
    written as it is, may have got a part. Raises OSError that names the file also where the disk is full,
    which the system reports without a name."""
    data = content.encode() if isinstance(content, str) else content
    with _named(path):
        if _is_written_as_it_is(path):
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)


def _is_written_as_it_is(path: Path) -> bool:
    """Also a file in a folder that takes no other one."""
    if any(path.absolute().is_relative_to(one) for one in _OF_THE_SYSTEM):
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
