"""Stores one partition in files of consecutive offset ranges, with one process as the owner of the folder.

    ROOT/topic=orders/partition=3/
        00000000000000000000-00000000000000001000-5d1c6f0e.avro   [0, 1000) and the checksum of the bytes
        00000000000000001000-00000000000000001750-0b77a1c2.avro
        .position.json       committed position; replaced atomically
        .lock                locked by the owner while its process lives
        .00000000000000001750.part   file being written, named by its first offset

A commit has three steps: the part file is completed and synced (fsync), the position file that names it is
replaced, and the part file is renamed. The second step is the commit: after a crash, the next owner renames a
part file that the position file names, and deletes any other part file. The name of a part file contains its
first offset, so that it cannot be mistaken for the part of a published file. Files are therefore complete
when they become visible, and a crash neither loses nor duplicates records, even if files are removed as soon
as they appear. Spark, Hive and similar engines ignore names that start with a dot.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from crc32c import crc32c

from mirror.errors import CorruptData, Fenced, Unreachable
from mirror.files import sync_folder
from mirror.model.topics import MOST_PARTITIONS, TopicPartition, is_legal_topic
from mirror.replication.connector import Position

POSITION: Final = ".position.json"
LOCK: Final = ".lock"
_NAME: Final = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})\.([a-z]+)")
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,9}")
_STEP_BYTES: Final = 1024 * 1024
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class LandedFile(NamedTuple):
    """A complete data file: its offsets [first, end), and the checksum of its bytes."""

    first: int
    end: int
    checksum: str
    path: Path


class CommittedPosition(NamedTuple):
    """Content of a partition's position file.

    `landed`: first offset of the next file; the offsets from there to the position have no record. `file`:
    name of the part file that this position commits; empty if it commits none.
    """

    position: Position
    landed: int
    file: str = ""


def folder_of(root: Path, place: TopicPartition) -> Path:
    """Return the folder for the files of a partition."""
    return root / f"topic={place.topic}" / f"partition={place.partition}"


def part_of(folder: Path, first: int) -> Path:
    """Return the path of the incomplete file that starts at this offset."""
    return folder / f".{first:020}.part"


def partitions_in(root: Path) -> dict[str, int]:
    """Return the partition count of every topic with folders under `root`. Raises Unreachable."""
    found: dict[str, int] = {}
    with translated(root):
        for folder in sorted(root.glob("topic=*/partition=*")):
            topic, number = folder.parent.name.partition("=")[2], folder.name.partition("=")[2]
            if is_legal_topic(topic) and _NUMBER.fullmatch(number) and int(number) < MOST_PARTITIONS:
                found[topic] = max(found.get(topic, 0), int(number) + 1)
    return found


def files_in(folder: Path, suffix: str) -> list[LandedFile]:
    """Return a partition's complete files in offset order. Raises Unreachable; CorruptData if two overlap."""
    found: list[LandedFile] = []
    with translated(folder):
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[4] == suffix:
            file = LandedFile(int(match[1]), int(match[2]), match[3], folder / name)
            if found and file.first < found[-1].end:
                raise CorruptData(
                    f"{file.path} overlaps {found[-1].path.name}",
                    advice="do not mix the files of several copies in one folder",
                )
            found.append(file)
    return found


def position_in(folder: Path, suffix: str) -> Position | None:
    """Return the committed position of a partition. Without a position file, return the end of the last file:
    the position file is missing if only the data files were copied to the folder. Raises Unreachable,
    CorruptData."""
    committed = _committed(folder, suffix)
    return committed.position if committed else None


def _committed(folder: Path, suffix: str) -> CommittedPosition | None:
    stored = _stored(folder)
    if stored is not None:
        return stored
    files = files_in(folder, suffix)
    return CommittedPosition(Position(files[-1].end), files[-1].end) if files else None


def check(file: LandedFile) -> None:
    """Verify the checksum of a data file. Raises CorruptData, Unreachable."""
    found = 0
    with translated(file.path), file.path.open("rb") as content:
        while data := content.read(_STEP_BYTES):
            found = crc32c(data, found)
    if f"{found:08x}" != file.checksum:
        raise CorruptData(
            f"{file.path} is damaged: its checksum differs from its name",
            advice="replace the file with an intact copy",
        )


class PartFile(RawIOBase):
    """The data file that is being written, and the checksum of its bytes so far."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("wb")
        self._checksum = 0

    @property
    def checksum(self) -> str:
        """Checksum of the bytes written so far."""
        return f"{self._checksum:08x}"

    def write(self, data: Any) -> int:
        """Append data to the file."""
        self._checksum = crc32c(data, self._checksum)
        return self._file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is not read before `finish`."""

    def finish(self) -> None:
        """Sync the file to disk and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        """Close the file, even if it is incomplete."""
        super().close()
        with suppress(OSError):  # flushing the buffer may fail for lack of space, which is harmless here
            self._file.close()


class OwnedFolder:
    """Folder of a partition, locked by this process until `close`. Raises Fenced, Unreachable,
    CorruptData."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._part: PartFile | None = None
        with translated(folder):
            make_folder(folder)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._own()
            self._committed = self._recovered()
        except BaseException:
            os.close(self._lock)
            raise

    def part(self) -> IO[bytes]:
        """Return the open data file. Creates a new one after each commit. Raises Unreachable."""
        with translated(self._folder):
            if self._part is None:
                self._part = PartFile(part_of(self._folder, self._first))
        part: Any = self._part  # only `write` and `flush` of a file are needed
        opened: IO[bytes] = part
        return opened

    def commit(self, position: Position) -> None:
        """Make the records and the position durable, and close the data file. Raises Fenced, Unreachable."""
        with translated(self._folder):
            self._require_ours()
            name = ""
            if self._part is not None:
                name = f"{self._first:020}-{position.next_offset:020}-{self._part.checksum}.{self._suffix}"
                self._part.finish()
                self._part = None
            self._store(position, name)
            if name:
                self._publish(name)

    @property
    def _first(self) -> int:
        """Source offset at which the next file starts."""
        return self._committed.landed if self._committed else 0

    @property
    def position(self) -> Position | None:
        """Committed position of the partition."""
        return self._committed.position if self._committed else None

    def close(self) -> None:
        """Release the lock of the folder. Idempotent."""
        part, self._part = self._part, None
        if part is not None:
            part.close()
            with suppress(OSError, Fenced):  # a new owner removes the part file
                self._require_ours()
                part_of(self._folder, self._first).unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _own(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Fenced(
                f"another process is writing to {self._folder}", advice="run only one copy per folder"
            ) from error
        except OSError as error:
            raise Unreachable(f"cannot lock {self._folder}: {error.strerror}") from error

    def _require_ours(self) -> None:
        """Check that the folder was not removed or replaced, because a new folder may have another owner.
        Raises Fenced."""
        try:
            there = os.stat(self._folder / LOCK)
        except FileNotFoundError:
            there = None
        ours = os.fstat(self._lock)
        if there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise Fenced(
                f"{self._folder} was removed or replaced", advice="restore the folder and restart the copy"
            )

    def _recovered(self) -> CommittedPosition | None:
        """Complete or undo an unfinished commit of the previous owner. Return the committed state."""
        stored = _stored(self._folder)
        with translated(self._folder):
            if stored is not None and stored.file:
                self._publish(stored.file)
            for part in self._folder.glob(".*.part"):
                part.unlink()
        return _committed(self._folder, self._suffix)

    def _store(self, position: Position, name: str) -> None:
        before = self._committed.landed if self._committed else position.next_offset
        made = CommittedPosition(position, position.next_offset if name else before, name)
        document = {**position._asdict(), "landed": made.landed, "file": name}
        new = self._folder / (POSITION + ".new")
        with new.open("w", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._folder / POSITION)
        self._committed = made
        sync_folder(self._folder)

    def _publish(self, name: str) -> None:
        """Rename the incomplete file to its final name. Does nothing if it already has that name."""
        part = part_of(self._folder, int(name.partition("-")[0]))
        if part.exists():
            os.rename(part, self._folder / name)
            sync_folder(self._folder)


def _stored(folder: Path) -> CommittedPosition | None:
    path = folder / POSITION
    with translated(folder):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
    try:
        document = json.loads(text)
        found = CommittedPosition(
            Position(document["next_offset"], document["origin"]), document["landed"], document["file"]
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if not _is_sound(found):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> CorruptData:
    return CorruptData(
        f"{path} is damaged", advice="remove it to continue after the latest file of the folder"
    )


def _is_sound(stored: CommittedPosition) -> bool:
    (next_offset, origin), landed, file = stored
    are_offsets = type(next_offset) is int and type(landed) is int and 0 <= landed <= next_offset
    are_texts = isinstance(origin, str) and isinstance(file, str)
    return are_offsets and are_texts and (file == "" or _NAME.fullmatch(file) is not None)


def make_folder(folder: Path) -> None:
    """Create the folder and its parents durably."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        sync_folder(created.parent)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Convert file system errors to Unreachable within this context."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Unreachable(
                f"no space left on the disk of {path}",
                advice="free some space; no record is lost, because uncommitted records are read again",
            ) from error
        raise Unreachable(f"{path}: {error.strerror or error}") from error
