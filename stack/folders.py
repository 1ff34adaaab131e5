"""Folders for caches and data on this machine, and checks of their free space."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stack.errors import DiskFull

HOME_VARIABLE: Final = "HEADRACE_HOME"
_CHECKOUT: Final = Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    """Return `.cache` of HEADRACE_HOME or of this package's checkout; else the user's cache."""
    if os.environ.get(HOME_VARIABLE):
        return Path(os.environ[HOME_VARIABLE]).absolute() / ".cache"
    if _is_checkout(_CHECKOUT):
        return _CHECKOUT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "headrace"


def stack_home() -> Path:
    """Return `.headrace/stack` in HEADRACE_HOME, else in the checkout that contains the working folder, else
    in the working folder."""
    if os.environ.get(HOME_VARIABLE):
        return Path(os.environ[HOME_VARIABLE]).absolute() / ".headrace" / "stack"
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if _is_checkout(folder)), here)
    return root / ".headrace" / "stack"


def require_space(folder: Path, needed_bytes: int, purpose: str, advice: str) -> None:
    """Raise DiskFull if the file system of `folder` (which may not exist yet) has fewer bytes free."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise DiskFull(
            f"only {free / 1e9:.2f} GB free in {existing}, but {purpose} needs {needed_bytes / 1e9:.2f} GB",
            advice=advice,
        )


@contextlib.contextmanager
def naming_a_full_disk(folder: Path, purpose: str) -> Iterator[None]:
    """Convert the system's error "no space left" in the `with` block to DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"disk full under {folder} while {purpose}", advice="free 1 GB") from error


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Create a folder and lock it for the `with` block. Other processes that lock the same folder wait."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_checkout(folder: Path) -> bool:
    try:
        return 'name = "headrace"' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
