"""The embedded store: a state machine, and a file with its commands in a locked folder.

The file starts with a snapshot, which frames of commands follow. Each frame contains the commands of one
write. A command is applied to a copy of the state, written and flushed. Readers see the new state only after
the flush. When the commands use more space than the snapshot, the file is replaced by a new file with a new
snapshot.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mirror.adapters.embedded_store.lock import FolderLock
from mirror.adapters.embedded_store.record_file import Disk, RecordFile, read_frames
from mirror.coordination.store.codec import (
    decode_command,
    decode_state,
    encode_command,
    encode_state,
    join_records,
    split_records,
)
from mirror.coordination.store.commands import Changes, Command, EndSession, Result
from mirror.coordination.store.machine import State, apply
from mirror.coordination.store.replica import FiredWatch, StateReplica, call_watches
from mirror.errors import ConfigError, CorruptData, DamagedStore, SessionLost, Unreachable
from mirror.loggers import get_logger

_log = get_logger(__name__)
FILE_NAME: Final = "coordination.records"
LOCK_NAME: Final = "coordination.lock"
_LEAST_GROWTH: Final = 4 * 1024 * 1024
"""Minimum size of the commands, in bytes, before a new snapshot is written."""

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL: Final = "free space on the disk, or set mirror.state_directory to a folder on another one"
_UNUSABLE: Final = "set mirror.state_directory to a folder that this user can write"

OnCondition = Callable[[bool, str], None]


@dataclass
class _Waiting:
    """A command that waits to be written to the file, and its result or error after the write."""

    command: Command
    result: Result | None = None
    error: Unreachable | None = None
    is_done: bool = False


@dataclass
class _Compaction:
    """Decides when to replace the file by a new file that starts with a snapshot.

    `least_growth`: see `_LEAST_GROWTH`.
    """

    least_growth: int = _LEAST_GROWTH
    due_at: int = field(default=0)

    def after(self, size: int) -> None:
        """Measure the growth of the file from this size on. Called after each attempt to write a new file."""
        self.due_at = size + max(size, self.least_growth)


class EmbeddedStore:
    """Coordination store in a local file. Implements `CommandLog`.

    `holder`: name of this instance, for the error in other processes that try to open the store.
    `on_condition`: callback when writes begin to fail or succeed again.
    """

    def __init__(
        self,
        folder: Path,
        holder: str,
        on_condition: OnCondition = lambda *_: None,
        disk: Disk | None = None,
        least_growth: int = _LEAST_GROWTH,
    ) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._holder = holder
        self._on_condition = on_condition
        self._disk = disk or Disk()
        self._lock = FolderLock(folder / LOCK_NAME)
        self._compaction = _Compaction(least_growth)
        self._replica = StateReplica()
        self._file: RecordFile | None = None
        self._queue: list[_Waiting] = []
        self._queue_lock = threading.Lock()
        self._write_lock = threading.RLock()
        self._trouble = ""
        self._needs_new_file = False

    @property
    def replica(self) -> StateReplica:
        """State after all durable commands."""
        return self._replica

    @property
    def is_open(self) -> bool:
        """True between the calls of `open` and `close`."""
        return self._file is not None

    def open(self) -> None:
        """Lock the folder, read the file, and end the sessions of the previous process.

        Raises StoreInUse, DamagedStore, NewerFormat, Unreachable if the disk fails, and ConfigError for a
        folder that cannot be used.
        """
        try:
            with ExitStack() as undo:
                undo.callback(self.close)
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._lock.take(self._holder)
                self._recover()
                for session in sorted(self._replica.state.sessions):
                    self.submit(EndSession(session))  # our lock proves that its process has ended
                undo.pop_all()
        except OSError as error:
            raise ConfigError(
                f"cannot use {self._folder} for the state of the service: {error.strerror or error}",
                advice=_FULL if error.errno in _NO_SPACE else _UNUSABLE,
            ) from error

    def close(self) -> None:
        """Close the file and release the folder. Idempotent."""
        with self._write_lock:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._lock.release()

    def sync(self) -> None:
        """Do nothing: the replica always contains every acknowledged command."""

    def submit(self, command: Command) -> Result:
        """Write a command to the file, and return its result. Raises Unreachable if the disk fails.

        A failed command has no effect, unless the process ends before the disk recovers.
        """
        waiting = _Waiting(command)
        with self._queue_lock:
            self._queue.append(waiting)
        fired: Sequence[FiredWatch] = ()
        with self._write_lock:
            if not waiting.is_done:
                with self._queue_lock:
                    group, self._queue = self._queue, []
                fired = self._write(group)
        call_watches(fired)
        if waiting.error is not None:
            raise waiting.error
        assert waiting.result is not None
        return waiting.result

    def _recover(self) -> None:
        try:
            self._file, frames = RecordFile.open(self._disk, self._path)
        except FileNotFoundError:
            self._write_new_file(State())
            return
        if frames.cut_off:
            _log.warning("incomplete last record cut off", path=str(self._path), bytes=frames.cut_off)
        self._replica = StateReplica(_state_of(self._path, frames.payloads))
        self._compaction.after(frames.size)

    def _write(self, group: Sequence[_Waiting]) -> Sequence[FiredWatch]:
        """Write and publish a group of commands, and return the watches to call.

        Afterwards, each command has a result or an error, even after an unexpected exception.
        """
        try:
            return self._write_all(group)
        except OSError as error:
            self._fail(group, error)
            return ()
        finally:
            for waiting in group:
                if not waiting.is_done:
                    waiting.is_done = True
                    waiting.error = Unreachable("the write to the coordination store was interrupted")

    def _write_all(self, group: Sequence[_Waiting]) -> Sequence[FiredWatch]:
        """Apply and write a group of commands, and publish the state. Raises OSError.

        Rejected commands are not written.
        """
        state, written, changes = self._replica.state, list[bytes](), list[Changes]()
        for waiting in group:
            following, waiting.result = apply(state, waiting.command)
            if waiting.result.refusal is None:
                state = following
                written.append(encode_command(waiting.command))
                changes.append(waiting.result.changes)
        if written:
            self._append(join_records(written), state)
            self._note_condition("")
        for waiting in group:
            waiting.is_done = True
        return self._replica.publish(state, changes)

    def _append(self, payload: bytes, following: State) -> None:
        """Append a frame, or write a new file that starts with a snapshot. Raises OSError.

        After an error, the incomplete frame is removed, or the next frame is written to a new file.
        """
        if self._file is None:
            raise SessionLost("the coordination store is closed")
        if self._needs_new_file:
            self._write_new_file(self._replica.state)
        self._needs_new_file = True  # until the frame is complete, or has been taken back
        try:
            self._file.append(payload)
        except OSError:
            if self._file.is_certain:
                self._file.take_back()
                self._needs_new_file = False
            raise
        self._needs_new_file = False
        if self._file.size >= self._compaction.due_at:
            self._compact(following)

    def _compact(self, state: State) -> None:
        size = self._file.size if self._file is not None else 0
        try:
            self._write_new_file(state)
        except OSError as error:
            self._compaction.after(size)
            _log.warning("cannot write a snapshot", path=str(self._path), reason=str(error))

    def _write_new_file(self, state: State) -> None:
        try:
            file = RecordFile.create(self._disk, self._path, encode_state(state))
        except OSError:
            self._needs_new_file |= not self._is_in_place()
            raise
        if self._file is not None:
            self._file.close()
        self._file, self._needs_new_file = file, False
        self._compaction.after(file.size)

    def _is_in_place(self) -> bool:
        """Return whether the path of the store still refers to the open file.

        The path refers to another file if an error occurred after a new file was renamed to this path.
        """
        try:
            return self._file is not None and self._file.is_at(self._path)
        except OSError:
            return False

    def _fail(self, group: Sequence[_Waiting], error: OSError) -> None:
        reason = f"cannot write {self._path}: {error.strerror or error}"
        advice = "free space on its disk" if error.errno in _NO_SPACE else "check its disk"
        for waiting in group:
            waiting.is_done = True
            waiting.error = Unreachable(reason, advice=advice)
        self._note_condition(f"{reason}; nothing can be changed, copying continues")

    def _note_condition(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            (_log.error if trouble else _log.info)(trouble or "the coordination store accepts changes again")
            self._on_condition(not trouble, trouble)


def read_state(folder: Path) -> State:
    """Read the state in a folder without changing it.

    Raises OSError, DamagedStore, NewerFormat; FileNotFoundError without a store.
    """
    path = folder / FILE_NAME
    return _state_of(path, read_frames(path).payloads)


def _state_of(path: Path, payloads: Sequence[bytes]) -> State:
    records: Iterator[bytes] = iter(payloads)
    try:
        state = decode_state(records)
        for payload in records:
            for record in split_records(payload):
                state, _ = apply(state, decode_command(record))
    except CorruptData as error:
        raise DamagedStore(
            f"this version cannot read the records of {path} ({error.message})",
            advice="run the version that wrote the file, or move the file away and import the latest"
            " headrace state export",
        ) from error
    return state
