"""Builds new batches from existing ones without decoding the keys and values of records.

A record starts with three numbers: its length, its timestamp delta and its offset delta. Closing gaps,
removing a start, merging, splitting and writing append times change only these three numbers. The rest of
each record is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mirror.errors import CorruptData
from mirror.protocol.batches.batch import LOG_APPEND_TIME, BatchHeader, assemble
from mirror.protocol.batches.compression import compress
from mirror.protocol.batches.holes import OffsetHole
from mirror.protocol.batches.records import Record
from mirror.protocol.frame import SMALL, SMALL_LIMIT, decode_signed, encode_signed

Run = tuple[int, int]
"""(first source offset, number of consecutive offsets)."""

_TWO_BYTES: Final = 0x80


class RecordTimes(NamedTuple):
    """Timestamps of records in a batch (epoch milliseconds), -1 if absent.

    `by_source`: (maximum timestamp, number of records) of each source batch, in order.
    """

    first: int
    newest: int
    by_source: tuple[tuple[int, int], ...]


def note_time(by_source: list[tuple[int, int]], newest: int, count: int) -> None:
    """Add a source batch to `RecordTimes.by_source`. Merges neighbours with the same timestamp."""
    if by_source and by_source[-1][0] == newest:
        by_source[-1] = newest, by_source[-1][1] + count
    else:
        by_source.append((newest, count))


def runs_of(records: Sequence[Record]) -> tuple[Run, ...]:
    """Return the source offsets of records as runs of consecutive offsets."""
    runs: list[Run] = []
    for record in records:
        extend(runs, record.offset, 1)
    return tuple(runs)


def extend(runs: list[Run], first: int, count: int) -> None:
    """Append a run of offsets, or extend the last run if adjacent."""
    if runs:
        last_first, last_count = runs[-1]
        if last_first + last_count == first:
            runs[-1] = (last_first, last_count + count)
            return
    runs.append((first, count))


def times_of(records: Sequence[Record]) -> RecordTimes:
    """Return the timestamps of records; each record counts as a source batch."""
    by_source: list[tuple[int, int]] = []
    for record in records:
        note_time(by_source, record.timestamp, 1)
    newest = max(timestamp for timestamp, _ in by_source)
    return RecordTimes(records[0].timestamp, newest, tuple(by_source))


class Reframed(NamedTuple):
    """A new batch without offset gaps and producer id, and the source offsets of its records, in order.

    `holes`: offsets in the source batches that have no record.
    """

    batch: bytearray
    runs: tuple[Run, ...]
    record_count: int
    payload_bytes: int
    times: RecordTimes
    holes: tuple[OffsetHole, ...] = ()


class StopPoint(NamedTuple):
    """Position in a source batch at which `Reframer.add` stopped because the new batch was full.

    Contains the bytes and records consumed so far, and the next offset relative to the base offset of the
    source batch.
    """

    position: int
    taken: int
    place: int


START: Final = StopPoint(0, 0, 0)


class Reframer:
    """Builds one new batch from the records of one or more source batches."""

    __slots__ = (
        "_base_timestamp",
        "_by_source",
        "_codec",
        "_first_timestamp",
        "_max_timestamp",
        "_parts",
        "_runs",
        "count",
        "holes",
        "size",
    )

    def __init__(self, codec: int) -> None:
        self._codec = codec
        self._parts: list[bytes] = []
        self._runs: list[Run] = []
        self._base_timestamp = 0
        self._first_timestamp = -1
        self._max_timestamp = -1
        self._by_source: list[tuple[int, int]] = []
        self.count = 0
        self.size = 0
        """Size of the payload before compression."""
        self.holes: list[OffsetHole] = []
        """Offsets of the source batches without a record, in order."""

    def add(
        self, payload: bytes, header: BatchHeader, first: int, limit: int, resume: StopPoint = START
    ) -> StopPoint | None:
        """Add the records of a decompressed batch whose offset is at least `first`.

        Returns None if all records were added. If the records do not fit into `limit` bytes, there are two
        cases. If the new batch already has records of other batches, no record is added, and START is
        returned. If the new batch is empty, as many records as fit are added, at least one, and the point to
        resume from is returned. Raises CorruptData without adding a record.
        """
        held = self.count
        if not held:
            self._base_timestamp = header.base_timestamp
            self._first_timestamp = header.first_timestamp
        elif self.size + len(payload) > limit:
            return START
        before = len(self._parts), self.size, self._max_timestamp
        places: list[int] = []
        try:
            stopped = self._copy(payload, header, first - header.base_offset, limit, resume, places)
            if stopped is None or not held:
                return self._note(header, places, max(first - header.base_offset, resume.place), stopped)
        except IndexError:
            self._undo(held, before)
            raise CorruptData(f"batch at offset {header.base_offset} ends inside a record") from None
        except CorruptData:
            self._undo(held, before)
            raise
        self._undo(held, before)
        return START

    def _undo(self, count: int, before: tuple[int, int, int]) -> None:
        parts, self.size, self._max_timestamp = before
        self.count = count
        del self._parts[parts:]

    def _copy(
        self, payload: bytes, header: BatchHeader, first: int, limit: int, start: StopPoint, places: list[int]
    ) -> StopPoint | None:
        # Loop over every record of small batches: function calls in it would double its cost.
        append, append_place, total = self._parts.append, places.append, len(payload)
        shift = header.base_timestamp - self._base_timestamp
        append_time = header.attributes & LOG_APPEND_TIME
        greatest = self._max_timestamp - self._base_timestamp
        number, size = self.count, self.size
        position, index, _ = start
        while index < header.record_count:
            byte = payload[position]
            if byte < _TWO_BYTES:
                length, at = byte >> 1, position + 1
            elif payload[position + 1] < _TWO_BYTES:
                length, at = (byte & 0x7F | payload[position + 1] << 7) >> 1, position + 2
            else:
                length, at = decode_signed(payload, position)
            end = at + length
            byte = payload[at + 1]
            delta, at = (
                ((byte >> 1) ^ -(byte & 1), at + 2) if byte < _TWO_BYTES else decode_signed(payload, at + 1)
            )
            byte = payload[at]
            place, at = (byte >> 1, at + 1) if byte < _TWO_BYTES else decode_signed(payload, at)
            if not at < end <= total:
                raise IndexError
            if place >= first:
                if size + length > limit and number:
                    break
                delta = header.max_timestamp - self._base_timestamp if append_time else delta + shift
                if delta > greatest:
                    greatest = delta
                stamped = SMALL[delta] if 0 <= delta < SMALL_LIMIT else encode_signed(delta)
                placed = SMALL[number] if number < SMALL_LIMIT else encode_signed(number)
                length = 1 + len(stamped) + len(placed) + end - at
                prefix = SMALL[length] if length < SMALL_LIMIT else encode_signed(length)
                append(prefix + b"\x00" + stamped + placed)
                append(payload[at:end])
                append_place(place)
                size += length + len(prefix)
                number += 1
            position, index = end, index + 1
        self.count, self.size, self._max_timestamp = number, size, greatest + self._base_timestamp
        if index < header.record_count:
            return StopPoint(position, index, 0)
        if position != total:
            raise CorruptData(f"batch at offset {header.base_offset} has trailing bytes after its records")
        return None

    def _note(
        self, header: BatchHeader, places: list[int], expected: int, stopped: StopPoint | None
    ) -> StopPoint | None:
        """Store which offsets of the source batch were added, and which from `expected` on have no record."""
        base, end = header.base_offset, header.last_offset_delta + 1
        found: list[Run] = []
        missing: list[OffsetHole] = []
        if places and places == list(range(places[0], places[0] + len(places))):
            found.append((places[0], len(places)))
        else:
            for place in places:
                extend(found, place, 1)
        for place, count in found:
            if place < expected:
                raise CorruptData(f"records of the batch at offset {base} are not in offset order")
            if place + count > end:
                raise CorruptData(f"a record of the batch at offset {base} exceeds its last offset")
            if place > expected:
                missing.append(OffsetHole(base + expected, base + place, header.span))
            expected = place + count
        if stopped is None and expected < end:
            missing.append(OffsetHole(base + expected, base + end, header.span))
        for place, count in found:
            extend(self._runs, base + place, count)
        if places:
            note_time(self._by_source, header.max_timestamp, len(places))
        self.holes += missing
        return None if stopped is None else StopPoint(stopped.position, stopped.taken, expected)

    def finish(self) -> Reframed:
        """Return the new batch, which has at least one record. The reframer must not be used afterwards."""
        payload = b"".join(self._parts)
        batch = assemble(
            compress(self._codec, payload),
            codec=self._codec,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            count=self.count,
        )
        times = RecordTimes(self._first_timestamp, self._max_timestamp, tuple(self._by_source))
        return Reframed(batch, tuple(self._runs), self.count, len(payload), times, tuple(self.holes))
