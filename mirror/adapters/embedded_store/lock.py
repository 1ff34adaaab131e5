"""A lock file that lets only one process use a folder."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from mirror.errors import StoreInUse
from mirror.files import OF_OWNER


class LockHolder(NamedTuple):
    """Process that uses the folder, according to the lock file.

    An empty name, or process id 0, means unknown.
    """

    instance: str
    process_id: int

    def __str__(self) -> str:
        return f"{self.instance or 'an unknown process'} (process {self.process_id or 'unknown'})"


class FolderLock:
    """A lock on a folder. The kernel releases the lock when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, instance: str) -> None:
        """Take the lock on the folder. Raises StoreInUse if another process holds it, and OSError."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OF_OWNER)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = _read(descriptor)
                os.close(descriptor)
                raise StoreInUse(
                    f"the state in {self._path.parent} is in use by {holder}",
                    advice="stop that process, or choose another mirror.state_directory; several instances"
                    " of a service need a store on Kafka ([coordination]) or ZooKeeper",
                ) from error
            except OSError:
                os.close(descriptor)
                raise
            if self._is_current(descriptor):
                break
            os.close(descriptor)  # removed by hand since it was opened
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"instance": instance, "process_id": os.getpid()}).encode(), 0)

    def release(self) -> None:
        """Release the lock on the folder. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_current(self, descriptor: int) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(descriptor))


def holder_of(path: Path) -> LockHolder | None:
    """Return the process that holds the lock, or None if the lock is free. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> LockHolder:
    try:
        found: Any = json.loads(os.pread(descriptor, 10_000, 0))
        return LockHolder(str(found["instance"]), int(found["process_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return LockHolder("", 0)
