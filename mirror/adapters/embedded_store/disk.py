"""File operations of the embedded store. Tests replace them to simulate crashes and disk errors."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mirror.files import OF_OWNER, sync_folder


class Disk:
    """Operations on real files; all raise OSError."""

    def create(self, path: Path) -> int:
        """Create an empty file that only the current user can access, and return its file descriptor.

        An existing file is replaced.
        """
        with suppress(FileNotFoundError):
            path.unlink()
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OF_OWNER)

    def open(self, path: Path) -> int:
        """Open an existing file. Return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        """Write all bytes at an offset."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, at)
            view, at = view[written:], at + written

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def sync(self, descriptor: int) -> None:
        """Flush the file to the disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate the file to a size."""
        os.ftruncate(descriptor, size)

    def replace(self, draft: Path, path: Path) -> None:
        """Rename a file durably, replacing the file at the new path."""
        os.replace(draft, path)
        sync_folder(path.parent)
