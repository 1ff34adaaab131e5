"""Disks that stop or fail in the middle of the work."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mirror.adapters.embedded_store.record_file import Disk


class Killed(BaseException):
    """The process has ended at this point."""


class DyingDisk(Disk):
    """Ends the process after a number of steps: each byte written is one, and each other operation is one."""

    def __init__(self, steps: int | None = None) -> None:
        self._left = steps
        self.steps = 0
        """Steps made so far."""

    def _take(self, wanted: int) -> int:
        """Return how many steps may still be made."""
        possible = wanted if self._left is None else min(wanted, self._left)
        self.steps += possible
        if self._left is not None:
            self._left -= possible
        return possible

    def _step(self) -> None:
        if not self._take(1):
            raise Killed

    def create(self, path: Path) -> int:
        self._step()
        return super().create(path)

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        possible = self._take(len(data))
        super().write(descriptor, data[:possible], at)
        if possible < len(data):
            raise Killed

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def sync(self, descriptor: int) -> None:
        """Nothing to do: whatever was written survives the end of the process."""
        self._step()

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def replace(self, draft: Path, path: Path) -> None:
        self._step()
        os.replace(draft, path)


class FailingDisk(Disk):
    """`space`: bytes that can still be written, None for any. `fails_to`: names of operations that fail."""

    def __init__(self) -> None:
        self.space: int | None = None
        self.fails_to: set[str] = set()

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        possible = len(data) if self.space is None else min(self.space, len(data))
        super().write(descriptor, data[:possible], at)
        if self.space is not None:
            self.space -= possible
        if possible < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self, descriptor: int) -> None:
        self._fail("sync")
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self._fail("truncate")
        super().truncate(descriptor, size)

    def replace(self, draft: Path, path: Path) -> None:
        super().replace(draft, path)
        self._fail("replace")

    def _fail(self, operation: str) -> None:
        if operation in self.fails_to:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
