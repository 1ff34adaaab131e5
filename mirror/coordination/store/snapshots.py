"""Snapshots of a shared log as records of a compacted topic. Pure.

A snapshot consists of parts with the keys `ID/0`, `ID/1`…, and an end record with the key `ID/end`. The end
record is written last and completes the snapshot. Several writers can write snapshots at the same time.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mirror.coordination.store.codec import decode_state, encode_state, join_records, split_records
from mirror.coordination.store.commands import SnapshotNote
from mirror.coordination.store.log_state import LogState
from mirror.coordination.store.parts import UnfinishedCommand
from mirror.errors import CorruptData, NewerFormat

FORMAT: Final = 1
KEPT: Final = 2
"""Number of complete snapshots to keep.

If the latest snapshot is damaged, the state is restored from the previous snapshot and the log.
"""
_END: Final = "end"


class SnapshotEnd(NamedTuple):
    """End record of a snapshot, which shows that the snapshot is complete.

    `log`: id of the log. `next_offset`: see `LogState`.
    """

    log: str
    next_offset: int
    parts: int
    size: int
    checksum: int


def part_key(snapshot: str, index: int) -> bytes:
    """Return the record key of a snapshot's part."""
    return f"{snapshot}/{index}".encode()


def end_key(snapshot: str) -> bytes:
    """Return the record key of a snapshot's end record."""
    return f"{snapshot}/{_END}".encode()


class SnapshotStream:
    """Encodes a snapshot as parts of at most `largest` bytes each, and an end record."""

    def __init__(self, state: LogState, log: str, largest: int) -> None:
        self._state = state
        self._log = log
        self._largest = largest
        self._parts = self._checksum = 0
        self.size = 0
        """Total size of the parts yielded so far, in bytes."""

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the snapshot. Can be called only once."""
        pending = bytearray()
        for record in _encoded(self._state):
            pending += record
            while len(pending) >= self._largest:
                yield self._counted(bytes(pending[: self._largest]))
                del pending[: self._largest]
        if pending:
            yield self._counted(bytes(pending))

    def end(self) -> bytes:
        """Return the end record, after all parts were consumed."""
        content = [FORMAT, self._log, self._state.next_offset, self._parts, self.size, self._checksum]
        return json.dumps(content).encode()

    def _counted(self, part: bytes) -> bytes:
        self._parts += 1
        self.size += len(part)
        self._checksum = zlib.crc32(part, self._checksum)
        return part


def _encoded(log: LogState) -> Iterator[bytes]:
    for writer, command in sorted(log.unfinished.items()):
        head = [
            writer.hex(),
            command.number,
            command.count,
            command.checksum,
            command.offset,
            len(command.payloads),
        ]
        yield join_records([json.dumps(head).encode(), *command.payloads])
    yield join_records([b"", json.dumps(log.foreign).encode()])
    for record in encode_state(log.state):
        yield join_records([record])


@dataclass(slots=True)
class _Collected:
    """Records of one snapshot that have been read so far.

    `keys`: keys of all these records, including records whose values were dropped.
    """

    keys: set[bytes] = field(default_factory=set)
    parts: dict[int, bytes] = field(default_factory=dict)
    end: SnapshotEnd | None = None

    @property
    def is_complete(self) -> bool:
        return self.end is not None and len(self.parts) >= self.end.parts


class SnapshotShelf:
    """All snapshots in a topic, collected by reading its records in order."""

    def __init__(self) -> None:
        self._found: dict[str, _Collected] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add a record of the snapshot topic. Raises NewerFormat.

        A value of None is a tombstone. Foreign records are ignored.
        """
        name, _, which = (key or b"").decode(errors="replace").rpartition("/")
        if not name or not (which == _END or (which.isascii() and which.isdecimal())):
            return
        found = self._found.setdefault(name, _Collected())
        if value is None:
            found.keys.discard(key or b"")
            if which == _END:
                found.end = None
            else:
                found.parts.pop(int(which), None)
            if not found.keys:
                del self._found[name]
            return
        found.keys.add(key or b"")
        if which == _END:
            found.end = _parse_end(value)
            if found.end is not None:
                self._release(found.end.log)
        else:
            found.parts[int(which)] = value

    def _release(self, log: str) -> None:
        """Free the memory of superseded snapshots, but keep their record keys."""
        for name, _ in self._complete(log)[KEPT:]:
            self._found[name].parts.clear()

    def _complete(self, log: str) -> list[tuple[str, SnapshotEnd]]:
        """Return the complete snapshots of a log, latest first."""
        complete = [
            (name, collected.end)
            for name, collected in self._found.items()
            if collected.end and collected.end.log == log and collected.is_complete
        ]
        return sorted(complete, key=lambda snapshot: (snapshot[1].next_offset, snapshot[0]), reverse=True)

    def usable(self, log: str, start: int, end: int) -> Iterator[LogState]:
        """Yield the undamaged snapshots from which the log [start, end) can continue, latest first."""
        for name, found in self._complete(log):
            if start <= found.next_offset <= end:
                try:
                    yield _decode(self._found[name], found)
                except CorruptData:
                    continue

    def superseded(self, log: str) -> tuple[int, list[bytes]]:
        """Return the offset before which the log can be trimmed, and the record keys of snapshots to delete.

        The latest `KEPT` complete snapshots are kept, and unfinished snapshots that were started after the
        oldest of them.
        """
        ends = self._complete(log)[:KEPT]
        if len(ends) < KEPT:
            return 0, []
        kept, keys, is_older = {name for name, _ in ends}, list[bytes](), True
        for name, collected in self._found.items():  # in the order in which they were begun
            if name in kept:
                is_older = False
            elif is_older or collected.end is not None:
                keys += sorted(collected.keys)
        return ends[-1][1].next_offset, keys


def _parse_end(value: bytes) -> SnapshotEnd | None:
    try:
        version, *content = json.loads(value)
        if isinstance(version, int) and version > FORMAT:
            raise NewerFormat(
                f"the coordination store has a snapshot of format {version}, this version supports up to"
                f" {FORMAT}",
                advice="upgrade this instance",
            )
        log, *numbers = content
        next_offset, parts, size, checksum = (int(number) for number in numbers)
        return SnapshotEnd(str(log), next_offset, parts, size, checksum)
    except (ValueError, TypeError):
        return None


def _decode(found: _Collected, end: SnapshotEnd) -> LogState:
    """Return the state in a complete snapshot. Raises CorruptData."""
    try:
        content = b"".join(found.parts[index] for index in range(end.parts))
        if (len(content), zlib.crc32(content)) != (end.size, end.checksum):
            raise CorruptData("a snapshot of the coordination store does not match its checksum")
        records = split_records(content)
        unfinished: dict[bytes, UnfinishedCommand] = {}
        while head := next(records):
            writer, number, count, checksum, offset, length = json.loads(head)
            payloads = tuple(next(records) for _ in range(length))
            unfinished[bytes.fromhex(writer)] = UnfinishedCommand(number, count, checksum, payloads, offset)
        foreign: Any = json.loads(next(records))
        note = SnapshotNote(end.next_offset, end.size)
        return LogState(decode_state(records), unfinished, end.next_offset, int(foreign), note)
    except (ValueError, KeyError, TypeError, StopIteration, RuntimeError) as error:
        raise CorruptData("a snapshot of the coordination store is malformed") from error
