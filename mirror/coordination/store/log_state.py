"""State of the coordination store at an offset of a shared log. Pure.

All readers of the log have equal states at equal offsets, whether they started at the beginning of the log or
at a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from mirror.coordination.store.codec import decode_command
from mirror.coordination.store.commands import Command, Result, SnapshotNote
from mirror.coordination.store.machine import State, apply
from mirror.coordination.store.parts import Unfinished, add_part, parse_part
from mirror.errors import CorruptData, NewerFormat

_NO_SNAPSHOT: Final = SnapshotNote(0, 0)


@dataclass(frozen=True, slots=True)
class LogState:
    """State of the store after all log records before `next_offset`.

    `unfinished`: see `parts.py`. `foreign`: number of records that were not commands. `snapshot`: latest
    announced snapshot.
    """

    state: State = field(default_factory=State)
    unfinished: Unfinished = field(default_factory=dict)
    next_offset: int = 0
    foreign: int = 0
    snapshot: SnapshotNote = _NO_SNAPSHOT


@dataclass(frozen=True, slots=True)
class AppliedCommand:
    """A command whose parts have all been read, and its result.

    `writer`, `number`: see `CommandPart`.
    """

    writer: bytes
    number: int
    command: Command
    result: Result


def apply_record(log: LogState, offset: int, record: bytes) -> tuple[LogState, AppliedCommand | None]:
    """Apply the record at an offset of the log to the state. A record that was already applied changes
    nothing. Foreign records are ignored. Raises NewerFormat for a command of a newer version, which must not
    be skipped."""
    if offset < log.next_offset:
        return log, None
    try:
        part = parse_part(record)
    except CorruptData:
        return replace(log, next_offset=offset + 1, foreign=log.foreign + 1), None
    unfinished, encoded = add_part(log.unfinished, part, offset)
    if encoded is None:
        return replace(log, next_offset=offset + 1, unfinished=unfinished), None
    try:
        command = decode_command(encoded)
    except CorruptData as error:
        raise NewerFormat(
            f"this version does not know the command at offset {offset} of the coordination log",
            advice="upgrade this instance",
        ) from error
    state, result = apply(log.state, command)
    snapshot = command if isinstance(command, SnapshotNote) else log.snapshot
    log = LogState(state, unfinished, offset + 1, log.foreign, snapshot)
    return log, AppliedCommand(part.writer, part.number, command, result)
