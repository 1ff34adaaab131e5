"""New batches from old ones without looking into keys and values.

A record begins with three numbers: its length, and the differences of its timestamp and offset to the
batch's. Whatever must change about a batch (holes closed, a start cut off, batches merged, a large one
split, append times made lasting) is a matter of these three and of decompressing and compressing
again. What follows them is copied as it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror.errors import CorruptData
from mirror.protocol.batches.batch import LOG_APPEND_TIME, BatchHeader, assemble
from mirror.protocol.batches.compression import compress
from mirror.protocol.varint import SMALL, SMALL_LIMIT, decode, encode

Run = tuple[int, int]
"""(first source offset, number of consecutive ones)."""

_TWO_BYTES: Final = 0x80


class Times(NamedTuple):
    """Timestamps of the records of a batch, epoch milliseconds, -1 for none. `by_source`: the newest of each
    source batch with the number of its records, in order."""

    first: int
    newest: int
    by_source: tuple[tuple[int, int], ...]


def note_time(by_source: list[tuple[int, int]], newest: int, count: int) -> None:
    """One more source batch for `Times.by_source`; neighbours with one timestamp are put together."""
    if by_source and by_source[-1][0] == newest:
        by_source[-1] = newest, by_source[-1][1] + count
    else:
        by_source.append((newest, count))


class Reframed(NamedTuple):
    """A dense batch without identity, and the source offsets of its records in order."""

    batch: bytearray
    runs: tuple[Run, ...]
    record_count: int
    payload_bytes: int
    times: Times


class Resume(NamedTuple):
    """Where `Reframer.add` stopped because the batch was full: bytes and records taken so far."""

    position: int
    taken: int


START: Final = Resume(0, 0)


class Reframer:
    """Collects the records of one or more source batches into one new batch."""

    __slots__ = (
        "_base_timestamp",
        "_by_source",
        "_codec",
        "_first_timestamp",
        "_max_timestamp",
        "_parts",
        "_runs",
        "count",
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
        """Bytes of payload before compression."""

    def add(
        self,
        payload: bytes,
        header: BatchHeader,
        first: int,
        limit: int,
        resume: Resume = START,
    ) -> Resume | None:
        """Take the records of a decompressed batch whose offset is at least `first`.

        Stops in front of a record that would bring `size` over `limit` bytes, unless it is the only
        one, and returns where to go on; None when all are taken. Raises CorruptData.
        """
        if not self.count:
            self._base_timestamp = header.base_timestamp
            self._first_timestamp = header.first_timestamp
        places: list[int] = []
        try:
            stopped = self._copy(payload, header, first - header.base_offset, limit, resume, places)
        except IndexError:
            raise CorruptData(f"the batch at offset {header.base_offset} ends inside a record") from None
        self._note(header, places)
        return stopped

    def _copy(
        self, payload: bytes, header: BatchHeader, first: int, limit: int, resume: Resume, places: list[int]
    ) -> Resume | None:
        # The loop over every record of small batches: function calls in it would double its cost.
        append, append_place, total = self._parts.append, places.append, len(payload)
        shift = header.base_timestamp - self._base_timestamp
        append_time = header.attributes & LOG_APPEND_TIME
        greatest = self._max_timestamp - self._base_timestamp
        number, size = self.count, self.size
        position, index = resume
        while index < header.record_count:
            byte = payload[position]
            if byte < _TWO_BYTES:
                length, at = byte >> 1, position + 1
            elif payload[position + 1] < _TWO_BYTES:
                length, at = (byte & 0x7F | payload[position + 1] << 7) >> 1, position + 2
            else:
                length, at = decode(payload, position)
            end = at + length
            byte = payload[at + 1]
            delta, at = ((byte >> 1) ^ -(byte & 1), at + 2) if byte < _TWO_BYTES else decode(payload, at + 1)
            byte = payload[at]
            place, at = (byte >> 1, at + 1) if byte < _TWO_BYTES else decode(payload, at)
            if not at < end <= total:
                raise IndexError
            if place >= first:
                if size + length > limit and number:
                    break
                delta = header.max_timestamp - self._base_timestamp if append_time else delta + shift
                if delta > greatest:
                    greatest = delta
                stamped = SMALL[delta] if 0 <= delta < SMALL_LIMIT else encode(delta)
                placed = SMALL[number] if number < SMALL_LIMIT else encode(number)
                length = 1 + len(stamped) + len(placed) + end - at
                prefix = SMALL[length] if length < SMALL_LIMIT else encode(length)
                append(prefix + b"\x00" + stamped + placed)
                append(payload[at:end])
                append_place(place)
                size += length + len(prefix)
                number += 1
            position, index = end, index + 1
        self.count, self.size, self._max_timestamp = number, size, greatest + self._base_timestamp
        if index < header.record_count:
            return Resume(position, index)
        if position != total:
            raise CorruptData(f"the batch at offset {header.base_offset} holds more than its records")
        return None

    def _note(self, header: BatchHeader, places: list[int]) -> None:
        if not places:
            return
        base_offset = header.base_offset
        first, count = base_offset + places[0], len(places)
        note_time(self._by_source, header.max_timestamp, count)
        if places[-1] - places[0] + 1 == count:
            self._extend(first, count)
            return
        for place in places:
            self._extend(base_offset + place, 1)

    def _extend(self, first: int, count: int) -> None:
        if self._runs:
            last_first, last_count = self._runs[-1]
            if last_first + last_count == first:
                self._runs[-1] = (last_first, last_count + count)
                return
        self._runs.append((first, count))

    def finish(self) -> Reframed:
        """The batch of what was taken, at least one record. The reframer is spent after it."""
        payload = b"".join(self._parts)
        batch = assemble(
            compress(self._codec, payload),
            codec=self._codec,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            count=self.count,
        )
        times = Times(self._first_timestamp, self._max_timestamp, tuple(self._by_source))
        return Reframed(batch, tuple(self._runs), self.count, len(payload), times)
