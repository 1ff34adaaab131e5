"""Locks in a checkpoint folder of Spark that prevent two jobs from using the same checkpoint.

The locks are file locks (flock) on files in the folder and are released when the process ends. If the folder
is a URL (hdfs, s3a), there are no locks; instead, Spark's commit log rejects a second writer of the same
batch.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from mirror.errors import ConfigError, Refused


class CheckpointLocks:
    """Locks that this process holds in one checkpoint folder. Thread-safe if each name is used by one thread
    only."""

    def __init__(self, folder: str) -> None:
        self._name = folder
        place = _local(folder)
        self._folder = None if place is None else place / "locks"
        self._held: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Acquire the lock with that name; no effect if this object already has it.

        Raises Refused if another job has the lock, ConfigError if the folder is not writable.
        """
        if self._folder is None or name in self._held:
            return
        path = self._folder / f"{quote(name, safe='')}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.write(lock, f"process {os.getpid()} on {socket.gethostname()}".encode())
        except BlockingIOError as error:
            holder = os.read(lock, 200).decode(errors="replace")
            os.close(lock)
            raise Refused(
                f"another job ({holder}) uses the checkpoint {self._name}",
                advice="stop it, or set a different pmp.job.checkpoint_folder or pmp.job.shard",
            ) from error
        except OSError as error:
            os.close(lock)  # otherwise the next attempt would find the lock taken
            raise self._unusable(error) from error
        self._held[name] = lock

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot write pmp.job.checkpoint_folder {self._name}: {error.strerror}")

    def release(self, name: str) -> None:
        """Release the lock; no effect if this object does not have it."""
        lock = self._held.pop(name, None)
        if lock is not None:
            os.close(lock)


def _local(folder: str) -> Path | None:
    """Return the path of a local folder; None for a URL of another file system."""
    url = urlparse(folder)
    if url.scheme == "file":
        return Path(unquote(url.path))
    return None if "://" in folder else Path(folder)
