"""Progress of lanes as read from the progress topic, in memory. No I/O."""

from __future__ import annotations

import zlib
from collections import ChainMap
from collections.abc import Sequence, Set
from typing import Final

from mirror.errors import CorruptData
from mirror.lane.progress import MAIN_PARTS, Entry, LaneProgress, main_key, main_of
from mirror.lane.progress_decoder import is_outdated, read_progress, written_at
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey
from mirror.protocol.batches.batch import CONTROL, TRANSACTIONAL, BatchHeader
from mirror.protocol.batches.records import Record, read_batch

_log = get_logger(__name__)
_LARGEST_BATCH: Final = 16 * 1024 * 1024
"""Maximum decompressed size of a batch in bytes. Batches of Headrace are much smaller."""
_COMMIT_MARKER: Final = 1


class StoredProgress:
    """Progress records in memory, of the requested lanes or of all lanes. Lanes that are requested later
    require another read of their partitions."""

    def __init__(self) -> None:
        self._parts: dict[int, ProgressPart] = {}
        self._wanted: set[bytes] = set()
        self._unseen: set[bytes] = set()
        """Main keys of the lanes requested since the last read."""
        self._keeps_all = False
        self._counts: set[int] = set()
        """Partition counts that the progress topic had when it was read."""

    def of(self, key: LaneKey) -> LaneProgress | None:
        """Return the lane's progress as of the last read. Raises CorruptData, NewerFormat."""
        return read_progress(key, self.records_of(main_key(key)))

    def records_of(self, main: bytes) -> ChainMap[bytes, bytes]:
        """Return a mapping of record key to value for the lane, from the partitions with its main record,
        newest first."""
        return ChainMap(*(self._parts[number].values for number in self.holders(main)))

    @property
    def partitions(self) -> list[dict[bytes, bytes]]:
        """Progress records in memory: for each partition of the topic, a mapping of record key to value."""
        return [part.values for part in self._parts.values()]

    @property
    def is_damaged(self) -> bool:
        """Return whether a batch was unreadable, which may have contained the progress of any lane."""
        return any(part.is_damaged for part in self._parts.values())

    @property
    def is_grown(self) -> bool:
        """Return whether partitions were added to the progress topic after it contained progress."""
        return len(self._counts) > 1 or any(part.is_scattered for part in self._parts.values())

    @property
    def keys(self) -> list[bytes]:
        """Keys of all progress records in memory."""
        return [key for part in self._parts.values() for key in part.values]

    def keys_of_lanes(self, mains: Set[bytes]) -> dict[int, list[bytes]]:
        """Map each partition to the record keys of the given lanes. Omits partitions without such records."""
        found = {
            number: [key for key in part.values if main_of(key) in mains]
            for number, part in self._parts.items()
        }
        return {number: keys for number, keys in found.items() if keys}

    def holders(self, main: bytes) -> list[int]:
        """Return the partitions that have the lane's main record, newest record first."""
        found = [number for number, part in self._parts.items() if main in part.values]
        if len(found) > 1:
            found.sort(key=lambda number: written_at(self._parts[number].values[main]), reverse=True)
        return found

    def want(self, mains: Set[bytes]) -> None:
        """Keep the progress of the given lanes in memory, starting with the next read."""
        if not self._keeps_all:
            self._unseen.update(mains - self._wanted)

    def keep_all(self) -> None:
        """Keep the progress of all lanes in memory, starting with the next read."""
        self._keeps_all = True
        self._parts.clear()

    def release(self, main: bytes) -> None:
        """Drop the progress of a lane from memory."""
        self._unseen.discard(main)
        if main in self._wanted:
            self._wanted.discard(main)
            for part in self._parts.values():
                part.forget(main)

    def clear(self) -> None:
        """Drop all progress records, because they belong to another cluster."""
        self._parts.clear()
        self._counts.clear()

    def begin_read(self, count: int) -> tuple[set[bytes], set[int]]:
        """Return which lanes were requested since the last read, and which partitions to read again for them.
        `count`: number of partitions of the topic."""
        self._counts.add(count)
        unseen, self._unseen = self._unseen, set()
        self._wanted |= unseen
        if unseen and self.is_grown:
            return unseen, set(range(count))
        return unseen, {zlib.crc32(main) % count for main in unseen}

    def abandon_read(self, unseen: set[bytes]) -> None:
        """Undo `begin_read` after a failed read, so that the next read includes these lanes."""
        self._wanted -= unseen
        self._unseen |= unseen

    def part(self, number: int, end: int) -> ProgressPart | None:
        """Return the records already read from a partition. Return None if it must be read from its start.
        `end`: end offset of the partition."""
        known = self._parts.get(number)
        return known if known is not None and known.read_up_to <= end else None

    def new_part(self, number: int, count: int, start: int) -> ProgressPart:
        """Create an empty partition, with which `put` replaces the present one."""
        return ProgressPart(None if self._keeps_all else self._wanted, start, (number, count))

    def put(self, number: int, part: ProgressPart) -> None:
        """Replace the records of a partition."""
        self._parts[number] = part


class ProgressPart:
    """Progress records in one partition of the progress topic.

    `wanted`: lanes to keep, None for all lanes. `place`: partition number and number of partitions.
    `is_scattered`: some keys belong to another partition by hash, because the topic had fewer partitions.
    `is_damaged`: a batch was unreadable.
    """

    def __init__(self, wanted: set[bytes] | None, start: int, place: tuple[int, int]) -> None:
        self.values: dict[bytes, bytes] = {}
        self.is_scattered = self.is_damaged = False
        self._place = place
        self.read_up_to = start
        self._wanted = wanted
        self._open: dict[int, list[Entry]] = {}

    def take(self, batch: memoryview, header: BatchHeader) -> None:
        """Add the records of the partition's next batch."""
        try:
            records = read_batch(batch, header, _LARGEST_BATCH)
        except CorruptData as error:
            self.note_damage(error)
            return
        if header.attributes & CONTROL:
            written = self._open.pop(header.producer_id, [])
            key = records[0].key if records else None
            if key is not None and int.from_bytes(key[2:4], "big") == _COMMIT_MARKER:
                self._apply(written)
            return
        self.is_scattered = self.is_scattered or not all(map(self._belongs_here, records))
        entries = [
            (record.key, record.value)
            for record in records
            if record.key is not None and (self._wanted is None or main_of(record.key) in self._wanted)
        ]
        if header.attributes & TRANSACTIONAL:
            self._open.setdefault(header.producer_id, []).extend(entries)
        else:
            self._apply(entries)

    def note_damage(self, error: CorruptData) -> None:
        """Note that a damaged batch was skipped."""
        self.is_damaged = True
        _log.error("damaged batch of the progress topic skipped", reason=str(error))

    def _belongs_here(self, record: Record) -> bool:
        number, count = self._place
        return record.key is None or zlib.crc32(main_of(record.key)) % count == number

    def forget(self, main: bytes) -> None:
        """Drop the progress records of a lane."""
        for key in [key for key in self.values if key.startswith(main) and main_of(key) == main]:
            del self.values[key]

    def _apply(self, entries: Sequence[Entry]) -> None:
        outdated = {key for key, value in entries if self._is_outdated(key, value)}
        for key, value in entries:
            if outdated and main_of(key) in outdated:
                continue
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value

    def _is_outdated(self, key: bytes, value: bytes | None) -> bool:
        if value is None or key.count(b"/") != MAIN_PARTS - 1:
            return False
        before = self.values.get(key)
        return before is not None and before != value and is_outdated(before, value)
