"""Locks on what lies in a checkpoint folder, so that no two jobs work over the same.

They are locks of the file system on files in the folder; they end with the process, however it ends. A
folder that is a URL (hdfs, s3a) has none: there Spark's own log refuses the second writer of a batch.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from mirror.errors import ConfigError, Refused


class CheckpointLocks:
    """The locks that this process holds in one folder. Safe for use by several threads, a name by one."""

    def __init__(self, folder: str) -> None:
        self._name = folder
        place = _local(folder)
        self._folder = None if place is None else place / "locks"
        self._held: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Hold the lock of that name; one that is held stays so.

        Raises Refused when another holds it, ConfigError when the folder cannot be written.
        """
        if self._folder is None or name in self._held:
            return
        path = self._folder / f"{quote(name, safe='')}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(
                f"pmp.job.checkpoint_folder {self._name} cannot be written ({error.strerror})"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 200).decode(errors="replace")
            os.close(lock)
            raise Refused(
                f"another job ({holder}) works over the checkpoint {self._name}",
                advice="stop it, or give this one a pmp.job.checkpoint_folder or a pmp.job.shard of its own",
            ) from error
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}".encode())
        self._held[name] = lock

    def release(self, name: str) -> None:
        """Give it back; one that is not held is left alone."""
        lock = self._held.pop(name, None)
        if lock is not None:
            os.close(lock)


def _local(folder: str) -> Path | None:
    """The folder on this machine; None for a URL of another file system."""
    url = urlparse(folder)
    if url.scheme == "file":
        return Path(unquote(url.path))
    return None if "://" in folder else Path(folder)
