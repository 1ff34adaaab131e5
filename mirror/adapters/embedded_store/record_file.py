"""A file of checksummed records that survives kill -9 and power loss.

    file    = mark, u32 format, u32 crc32 of both, frame…
    frame   = mark, u64 index, u32 length, u32 crc32 of these three, u32 crc32 of the payload, payload

A new file is written under a temporary name and then renamed, so its first frames are always complete.
Appended frames are acknowledged after fsync. A damaged frame at the end of the file was never acknowledged,
and is removed. If an intact frame follows a damaged frame, the cause is a faulty disk or a manual change, and
the file is rejected.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mirror.errors import DamagedStore, NewerFormat
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
        """Open an existing file. Return the file descriptor."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        """Write all bytes to a file at an offset."""
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


FORMAT: Final = 1
_FILE_MARK: Final = b"\x89Headrace\r\n"
_FRAME_MARK: Final = b"\x89HRf"
_FILE_HEAD: Final = struct.Struct(f">{len(_FILE_MARK)}sI")
_FRAME_HEAD: Final = struct.Struct(f">{len(_FRAME_MARK)}sQI")
_SUM: Final = struct.Struct(">I")
_FILE_HEAD_SIZE: Final = _FILE_HEAD.size + _SUM.size
_FRAME_HEAD_SIZE: Final = _FRAME_HEAD.size + 2 * _SUM.size


class Frames(NamedTuple):
    """Intact frames read from a file. `cut_off`: size of an incomplete frame at the end in bytes."""

    payloads: list[bytes]
    size: int
    cut_off: int


class RecordFile:
    """A record file that is open for appending. Used by one thread at a time."""

    def __init__(self, disk: Disk, descriptor: int, index: int, size: int) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._index = index
        self.size = size
        """Length of the acknowledged part of the file in bytes."""
        self.is_certain = True
        """False after a failed flush, because the kernel may have dropped unflushed bytes."""

    @classmethod
    def create(cls, disk: Disk, path: Path, payloads: Iterable[bytes]) -> RecordFile:
        """Replace the file with a new file, durably and atomically. Raises OSError."""
        draft = path.with_name(f"{path.name}.new")
        descriptor = disk.create(draft)
        with ExitStack() as undo:
            undo.callback(_discard, disk, draft, descriptor)
            head = _FILE_HEAD.pack(_FILE_MARK, FORMAT)
            disk.write(descriptor, head + _sum_of(head), 0)
            file = cls(disk, descriptor, 0, _FILE_HEAD_SIZE)
            for payload in payloads:
                file._write(payload)
            disk.sync(descriptor)
            disk.replace(draft, path)
            undo.pop_all()
        return file

    @classmethod
    def open(cls, disk: Disk, path: Path) -> tuple[RecordFile, Frames]:
        """Open a record file, and remove an incomplete frame at its end.

        Raises OSError, DamagedStore, NewerFormat.
        """
        frames = read_frames(path)
        descriptor = disk.open(path)
        try:
            if frames.cut_off:
                disk.truncate(descriptor, frames.size)
                disk.sync(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        return cls(disk, descriptor, len(frames.payloads), frames.size), frames

    def append(self, payload: bytes) -> None:
        """Append a frame to the file durably.

        After an OSError, the file may contain a part of the frame. Call `take_back`, or replace the file,
        before the next append.
        """
        before = self.size, self._index
        try:
            self._write(payload)
            self.is_certain = False
            self._disk.sync(self._descriptor)
            self.is_certain = True
        except OSError:
            self.size, self._index = before
            raise

    def take_back(self) -> None:
        """Remove the remains of a failed `append` from the file. Raises OSError."""
        self._disk.truncate(self._descriptor, self.size)
        self._disk.sync(self._descriptor)

    def is_at(self, path: Path) -> bool:
        """Return whether a path still refers to this open file. Raises OSError."""
        return os.path.samestat(os.fstat(self._descriptor), path.stat())

    def close(self) -> None:
        """Close the record file."""
        os.close(self._descriptor)

    def _write(self, payload: bytes) -> None:
        head = _FRAME_HEAD.pack(_FRAME_MARK, self._index, len(payload))
        frame = b"".join((head, _sum_of(head), _sum_of(payload), payload))
        self._disk.write(self._descriptor, frame, self.size)
        self.size += len(frame)
        self._index += 1


def read_frames(path: Path) -> Frames:
    """Read a record file without changing it. Raises OSError, DamagedStore, NewerFormat."""
    data = path.read_bytes()
    _check_head(path, data)
    payloads: list[bytes] = []
    at = _FILE_HEAD_SIZE
    while (payload := _frame_at(data, at, len(payloads))) is not None:
        payloads.append(payload)
        at += _FRAME_HEAD_SIZE + len(payload)
    if at < len(data) and _has_intact_frame(data, at, len(payloads)):
        raise DamagedStore(
            f"{path} is damaged at byte {at}; the records after that are intact",
            advice="restore the file from a backup, or move it away and import the latest"
            " headrace state export; do not edit it",
        )
    return Frames(payloads, at, len(data) - at)


def _check_head(path: Path, data: bytes) -> None:
    head = data[: _FILE_HEAD.size]
    is_complete = len(data) >= _FILE_HEAD_SIZE and data[len(head) : _FILE_HEAD_SIZE] == _sum_of(head)
    mark, found = _FILE_HEAD.unpack(head) if is_complete else (b"", 0)
    if mark != _FILE_MARK:
        raise DamagedStore(
            f"{path} is not a file of the embedded store, or its first bytes are damaged",
            advice="restore the file from a backup, or move it away and import the latest"
            " headrace state export",
        )
    if found > FORMAT:
        raise NewerFormat(
            f"{path} has format {found}, this version supports up to {FORMAT}",
            advice="upgrade this instance or choose another mirror.state_directory",
        )


def _frame_at(data: bytes, at: int, index: int, *, or_later: bool = False) -> bytes | None:
    """Return the payload of the frame at an offset, or None if the frame is not intact."""
    head = data[at : at + _FRAME_HEAD.size]
    sums = data[at + _FRAME_HEAD.size : at + _FRAME_HEAD_SIZE]
    if len(sums) < 2 * _SUM.size or sums[: _SUM.size] != _sum_of(head):
        return None
    mark, found, length = _FRAME_HEAD.unpack(head)
    payload = data[at + _FRAME_HEAD_SIZE : at + _FRAME_HEAD_SIZE + length]
    is_next = found >= index if or_later else found == index
    if mark != _FRAME_MARK or not is_next or len(payload) < length or sums[_SUM.size :] != _sum_of(payload):
        return None
    return payload


def _has_intact_frame(data: bytes, at: int, index: int) -> bool:
    """Return whether an intact frame follows anywhere after a damaged frame."""
    while (at := data.find(_FRAME_MARK, at)) >= 0:
        if _frame_at(data, at, index, or_later=True) is not None:
            return True
        at += 1
    return False


def _sum_of(data: bytes) -> bytes:
    return _SUM.pack(zlib.crc32(data))


def _discard(disk: Disk, draft: Path, descriptor: int) -> None:
    os.close(descriptor)
    with suppress(OSError):
        disk.remove(draft)
