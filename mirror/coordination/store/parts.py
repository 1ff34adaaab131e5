"""Splits commands into parts, because brokers limit the size of a record. Each part is one record of a shared
log.

    part = mark, u8 format, 16 bytes writer, u64 number, u16 index, u16 count, u32 crc32 of command, payload

A writer numbers its commands and writes their parts in order. Commands of different writers are ordered by
the offset of their last part. An unfinished command is abandoned when its writer begins the next command, or
when two of its parts are `LONGEST_GAP` offsets apart. Therefore all readers abandon the same commands,
regardless of the offset at which they started to read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror.errors import CorruptData, NewerFormat

FORMAT: Final = 1
LONGEST_GAP: Final = 10_000
_MARK: Final = b"\x89HRc"
_HEAD: Final = struct.Struct(">4sB16sQHHI")
PART_OVERHEAD: Final = _HEAD.size
_MOST_PARTS: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class CommandPart:
    """Part of a command that was too large for one record.

    `writer`: 16 bytes chosen by the writing process. `number`: number of the command, starting at 1.
    """

    writer: bytes
    number: int
    index: int
    count: int
    checksum: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class UnfinishedCommand:
    """A command of which only some parts have been read.

    `offset`: offset of the latest part.
    """

    number: int
    count: int
    checksum: int
    payloads: tuple[bytes, ...]
    offset: int


Unfinished = Mapping[bytes, UnfinishedCommand]
"""Commands with missing parts, by writer."""


def split_command(writer: bytes, number: int, command: bytes, largest: int) -> Iterator[bytes]:
    """Yield the parts of an encoded command, of at most `largest` bytes each.

    Raises ValueError if the command needs too many parts.
    """
    room = max(largest - PART_OVERHEAD, 1)
    count = max(-(-len(command) // room), 1)
    if count > _MOST_PARTS:
        raise ValueError(f"a command of {len(command)} bytes does not fit into parts of {largest} bytes")
    checksum = zlib.crc32(command)
    for index in range(count):
        head = _HEAD.pack(_MARK, FORMAT, writer, number, index, count, checksum)
        yield head + command[index * room : (index + 1) * room]


def parse_part(record: bytes) -> CommandPart:
    """Parse a record into a command part. Raises CorruptData for other records, and NewerFormat."""
    if len(record) < _HEAD.size or not record.startswith(_MARK):
        raise CorruptData("a record of the coordination log is not a command")
    _, version, writer, number, index, count, checksum = _HEAD.unpack_from(record)
    if version > FORMAT:
        raise NewerFormat(
            f"the coordination log has commands of format {version}, this version supports up to {FORMAT}",
            advice="upgrade this instance",
        )
    if index >= count:
        raise CorruptData("a record of the coordination log is malformed")
    return CommandPart(writer, number, index, count, checksum, record[_HEAD.size :])


def add_part(unfinished: Unfinished, part: CommandPart, offset: int) -> tuple[Unfinished, bytes | None]:
    """Add a part to the unfinished commands. Return the unfinished commands, and the command that the part
    completes, or None.

    A repeated part has no effect. Any other part out of order abandons the command of its writer.
    """
    known = unfinished.get(part.writer)
    following = _following(known, part, offset)
    if following is not None and following is known:
        return unfinished, None
    others = {writer: command for writer, command in unfinished.items() if writer != part.writer}
    if following is None:
        return others, None
    if len(following.payloads) < following.count:
        return {**others, part.writer: following}, None
    command = b"".join(following.payloads)
    return others, command if zlib.crc32(command) == following.checksum else None


def _following(known: UnfinishedCommand | None, part: CommandPart, offset: int) -> UnfinishedCommand | None:
    """Return the writer's unfinished command with the part added, or None if the part does not follow."""
    same = known is not None and (known.number, known.count, known.checksum) == (
        part.number,
        part.count,
        part.checksum,
    )
    if known is None or not same or offset - known.offset > LONGEST_GAP:
        first = UnfinishedCommand(part.number, part.count, part.checksum, (part.payload,), offset)
        return first if part.index == 0 else None
    if part.index == len(known.payloads):
        return replace(known, payloads=(*known.payloads, part.payload), offset=offset)
    is_repeated = part.index < len(known.payloads) and known.payloads[part.index] == part.payload
    return known if is_repeated else None
