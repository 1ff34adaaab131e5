"""Instances that share a log, from the pure parts of the store, under seeded faults in virtual time.

The log is a list. Batches are delayed, lost, repeated, and arrive after their writer has given them up;
instances stall, are killed and replaced, and begin snapshots at the same time; the log is trimmed behind
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Final

from mirror.coordination.store.codec import encode_command, encode_state
from mirror.coordination.store.commands import (
    Change,
    Command,
    EndSession,
    Heartbeat,
    OpenSession,
    Operation,
    RefusalKind,
    Removal,
    Result,
)
from mirror.coordination.store.heartbeats import SessionContact, SilenceObserver
from mirror.coordination.store.log_state import LogState, apply_record
from mirror.coordination.store.parts import split_command
from mirror.coordination.store.snapshots import SnapshotShelf, SnapshotStream, end_key, part_key
from mirror.coordination.store.tree import find
from mirror.instance.own_session import SHARE
from mirror.model.nodes import NewNode, NodeWrite, SessionState
from tests.models.linearizability import Checker, RecordedCall

TIMEOUT: Final = 6.0
_TICK: Final = 0.1
_GIVE_UP: Final = 3.0
_KEYS: Final = ("/a", "/b")
_LOG: Final = "log"
_LARGEST: Final = 160
_MOST_CALLS: Final = 30
_STORED_AT_ONCE: Final = 2
Tree = tuple[tuple[bytes, int] | None, ...]
EMPTY: Final[Tree] = (None, None)


@dataclass
class Batch:
    """Records on their way to the log. `arrives`: when; infinite if they were lost."""

    writer: bytes
    epoch: int
    numbers: tuple[int, ...]
    records: tuple[bytes, ...]
    arrives: float
    repeats: int = 0
    stored: int = 0
    """Records that were stored since the batch was sent, or repeated."""


@dataclass
class Log:
    """The log with its broker. Offsets start at `start`; `epochs`: highest producer epoch by writer."""

    records: list[bytes] = field(default_factory=list)
    start: int = 0
    epochs: dict[bytes, int] = field(default_factory=dict)
    snapshots: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    under_way: list[Batch] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return self.start + len(self.records)

    def shelf(self) -> SnapshotShelf:
        """Return the snapshots as an instance reads them."""
        shelf = SnapshotShelf()
        for key, value in self.snapshots:
            shelf.add(key, value)
        return shelf

    def trim(self, before: int) -> None:
        """Delete the records before an offset."""
        if before > self.start:
            del self.records[: before - self.start]
            self.start = before

    def deliver(self, now: float) -> None:
        """Append a few records of every batch that arrives, unless a later epoch of its writer fences it."""
        for batch in [one for one in self.under_way if one.arrives <= now]:
            if batch.epoch >= self.epochs.get(batch.writer, 0):
                self.epochs[batch.writer] = batch.epoch
                self.records += batch.records[batch.stored : batch.stored + _STORED_AT_ONCE]
            batch.stored += _STORED_AT_ONCE
            if batch.stored < len(batch.records):
                batch.arrives = now + _TICK
            elif batch.repeats:
                batch.repeats -= 1
                batch.arrives, batch.stored = now + 2 * _TICK, 0
            else:
                self.under_way.remove(batch)


@dataclass
class _Call:
    """A command of an instance whose result it does not know yet."""

    number: int
    command: Command
    recorded: RecordedCall | None = None


class Process:
    """One instance, from its start to its end."""

    def __init__(self, world: World, name: bytes) -> None:
        self._world = world
        self._name = name
        self._epoch = 0
        self._numbers = 0
        self._requests = 0
        self.log = LogState()
        self.session = ""
        self.contact: SessionContact | None = None
        self._observer = SilenceObserver(TIMEOUT)
        self._calls: dict[int, _Call] = {}
        self._waiting: list[_Call] = []
        self._batch: Batch | None = None
        self._sent_at = 0.0
        self._opening: tuple[str, float, int] | None = None
        self._snapshot: tuple[str, list[bytes], SnapshotStream] | None = None
        self.stalled_until = 0.0
        self._load()

    # Log

    def _load(self) -> None:
        """Read the newest snapshot, as after the start or after the log was trimmed."""
        log = self._world.log
        states = list(log.shelf().usable(_LOG, log.start, log.end))
        assert states or log.start == 0, "the log was trimmed without a snapshot"
        self.log = states[0] if states else LogState()
        for call in list(self._calls.values()):
            self._lose(call)

    def run_once(self) -> None:
        """Do what is due."""
        now = self._world.now
        if self.log.next_offset < self._world.log.start:
            self._load()
        self._read(self._world.random.randrange(1, 12))
        self._keep_session(now)
        self._write(now)
        self._snapshot_step()

    def _read(self, count: int) -> None:
        log = self._world.log
        for offset in range(self.log.next_offset, min(self.log.next_offset + count, log.end)):
            self.log, applied = apply_record(self.log, offset, log.records[offset - log.start])
            self._world.compare(self.log)
            if applied is not None and applied.writer == self._name:
                call = self._calls.pop(applied.number, None)
                if call is not None:
                    self._answer(call, applied.result)
        self._observer.observe(self.log.state.sessions, self.session, self._world.now)

    def _answer(self, call: _Call, result: Result) -> None:
        if call.recorded is not None:
            call.recorded.returned = self._world.now
            call.recorded.result = self._outcome(call, result)
            if result.refusal is not None and result.refusal.kind is RefusalKind.NO_SESSION:
                self._world.history.remove(call.recorded)  # it changed nothing
        if isinstance(call.command, OpenSession) and self._opening is not None:
            name, sent, _ = self._opening
            self.session, self.contact, self._opening = name, SessionContact(TIMEOUT, sent), None
            self._requests = 0

    def _outcome(self, call: _Call, result: Result) -> object:
        assert call.recorded is not None
        operation = call.recorded.operation
        if isinstance(operation, tuple) and operation and operation[0] == "read":
            return tuple(_value(self.log, key) for key in _KEYS)
        return (result.answers, result.refusal.kind if result.refusal else None)

    # Session

    def _keep_session(self, now: float) -> None:
        self._judge_session(now)
        if self.contact is None:
            self._open_session(now)
            return
        number = self.contact.next_heartbeat(now)
        if number is not None:
            self._submit(Heartbeat(self.session, number))
        for command in self._observer.silent(now):
            if not any(call.command == command for call in self._calls.values()):
                self._submit(command)

    def _judge_session(self, now: float) -> None:
        contact, own = self.contact, self.log.state.sessions.get(self.session)
        if contact is None:
            return
        if own is not None:
            contact.read_back(own.heartbeat, now)
        if own is None or contact.state(now) is SessionState.LOST:
            self.contact = None
            for call in list(self._calls.values()):
                self._lose(call)

    def _open_session(self, now: float) -> None:
        if self._opening is None:
            self._world.sessions += 1
            name = f"s{self._world.sessions}"
            if self.session:
                self._submit(EndSession(self.session))
            self._opening = name, now, self._submit(OpenSession(name, round(TIMEOUT * 1000)))
        elif self._opening[2] not in self._calls:
            self._opening = None

    @property
    def has_lease(self) -> bool:
        """Whether its workers may copy."""
        contact = self.contact
        return contact is not None and self._world.now < contact.answered_at + TIMEOUT * SHARE

    # Writes

    def ask(self, operations: Sequence[Operation] | None) -> None:
        """Begin a change, or a read of all keys with `sync`."""
        if self.contact is None or len(self._calls) > 3:
            return
        if operations is None:
            recorded = RecordedCall(("read",), self._world.now)
            command: Command = Heartbeat(self.session, self.contact.send(self._world.now))
        else:
            recorded = RecordedCall(tuple(operations), self._world.now)
            self._requests += 1
            command = Change(self.session, self._requests, tuple(operations))
        self._world.history.append(recorded)
        self._submit(command, recorded)

    def _submit(self, command: Command, recorded: RecordedCall | None = None) -> int:
        self._numbers += 1
        call = _Call(self._numbers, command, recorded)
        self._calls[call.number] = call
        self._waiting.append(call)
        return call.number

    def _lose(self, call: _Call) -> None:
        """Give a call up; it may take effect later unless it was never sent."""
        self._calls.pop(call.number, None)
        if call in self._waiting:
            self._waiting.remove(call)
            if call.recorded is not None:
                self._world.history.remove(call.recorded)

    def _write(self, now: float) -> None:
        batch, log, random = self._batch, self._world.log, self._world.random
        if batch is not None:
            is_stored = all(number not in self._calls for number in batch.numbers)
            if is_stored:
                self._batch = None
            elif now - self._sent_at > _GIVE_UP:
                self._epoch += 1
                self._batch = None
                for number in batch.numbers:
                    if number in self._calls:
                        self._lose(self._calls[number])
            elif batch.arrives == inf and random.random() < 0.3:
                batch.arrives = now + _TICK * random.randrange(1, 10)
                log.under_way.append(batch)
        if self._batch is None and self._waiting:
            count = random.randrange(1, 4)
            sent, self._waiting = self._waiting[:count], self._waiting[count:]
            records = tuple(
                part
                for call in sent
                for part in split_command(self._name, call.number, encode_command(call.command), _LARGEST)
            )
            is_lost = random.random() < 0.15
            arrives = inf if is_lost else now + _TICK * random.choice((1, 1, 1, 2, 3, 8, 45))
            repeats = int(random.random() < 0.3)
            numbers = tuple(call.number for call in sent)
            self._batch = Batch(self._name, self._epoch, numbers, records, arrives, repeats)
            self._sent_at = now
            if not is_lost:
                log.under_way.append(self._batch)

    def _snapshot_step(self) -> None:
        """Begin a snapshot at times, and write one part of it per call."""
        world = self._world
        if self._snapshot is None:
            if self.contact is not None and world.random.random() < 0.05:
                stream = SnapshotStream(self.log, _LOG, 400)
                world.snapshots += 1
                self._snapshot = f"p{world.snapshots}", list(stream.parts()), stream
            return
        name, parts, stream = self._snapshot
        written = sum(key.startswith(f"{name}/".encode()) for key, _ in world.log.snapshots)
        if written < len(parts):
            world.log.snapshots.append((part_key(name, written), parts[written]))
            return
        world.log.snapshots.append((end_key(name), stream.end()))
        self._snapshot = None
        self._clean()

    def _clean(self) -> None:
        log = self._world.log
        before, keys = log.shelf().superseded(_LOG)
        log.trim(before)
        log.snapshots += [(key, None) for key in keys]


class World:
    """All instances and the log. `run` raises AssertionError if something that must hold does not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 100.0
        self.log = Log()
        self.history: list[RecordedCall] = []
        self.sessions = self.snapshots = 0
        self._made = 0
        self._states: dict[int, bytes] = {}
        self._ended: set[str] = set()
        self.processes = [self._process() for _ in range(3)]

    def _process(self) -> Process:
        self._made += 1
        return Process(self, self._made.to_bytes(16, "big"))

    def run(self, ticks: int = 300) -> None:
        """Let instances work under faults, and check the history at the end."""
        for tick in range(ticks):
            self.now += _TICK
            self.log.deliver(self.now)
            self._check_leases()
            for process in self.processes:
                if process.stalled_until <= self.now:
                    process.run_once()
            if tick < ticks - 60:
                self._disturb()
        assert Checker(EMPTY, model_step).explains(self.history)

    def _disturb(self) -> None:
        random = self.random
        victim = random.randrange(len(self.processes))
        process = self.processes[victim]
        chance = random.random()
        if chance < 0.006:
            self.processes[victim] = self._process()
        elif chance < 0.02:
            process.stalled_until = self.now + random.choice((0.5, 2.0, 5.0, 9.0))
        elif chance < 0.03:
            for one in self.processes:
                one.stalled_until = max(one.stalled_until, self.now + random.choice((1.0, 7.0)))
        elif chance < 0.4 and process.stalled_until <= self.now and len(self.history) < _MOST_CALLS:
            process.ask(self._operations())

    def _operations(self) -> Sequence[Operation] | None:
        random = self.random
        key = random.choice(_KEYS)
        data = random.randbytes(random.choice((2, 2, 300)))
        version = random.randrange(3)
        kinds: Sequence[Sequence[Operation] | None] = (
            None,
            [NewNode(key, data)],
            [NodeWrite(key, data, version)],
            [Removal(key, version)],
            [NodeWrite(one, data, version) for one in _KEYS],
            [NewNode(_KEYS[0], data), Removal(_KEYS[1])],
        )
        return random.choice(kinds)

    def compare(self, log: LogState) -> None:
        """Check that every instance has the same state at the same offset."""
        encoded = b"".join(encode_state(log.state))
        assert self._states.setdefault(log.next_offset, encoded) == encoded, "replicas differ"

    def _check_leases(self) -> None:
        """Check that no session ended whose owner may still copy."""
        newest = max(self.processes, key=lambda one: one.log.next_offset).log
        state = newest
        for offset in range(newest.next_offset, self.log.end):
            state, _ = apply_record(state, offset, self.log.records[offset - self.log.start])
        for process in self.processes:
            is_gone = process.session not in state.state.sessions
            assert not (process.has_lease and is_gone), f"{process.session} ended during its lease"


def _value(log: LogState, key: str) -> tuple[bytes, int] | None:
    node = find(log.state.root, key)
    return (node.data, node.version) if node is not None else None


def model_step(state: Tree, operation: object) -> tuple[Tree, object]:
    """The model: a value with a version for each key."""
    assert isinstance(operation, tuple)
    if operation == ("read",):
        return state, state
    values = dict(zip(_KEYS, state, strict=True))
    answers: list[str | int | None] = []
    for one in operation:
        found = values[one.path]
        match one:
            case NewNode(path, data):
                if found is not None:
                    return state, ((), RefusalKind.EXISTS)
                values[path] = (data, 0)
                answers.append(path)
            case NodeWrite(path, data, version):
                if found is None:
                    return state, ((), RefusalKind.NOT_FOUND)
                if found[1] != version:
                    return state, ((), RefusalKind.CONFLICT)
                values[path] = (data, version + 1)
                answers.append(version + 1)
            case Removal(path, expected):
                if found is not None and expected not in {None, found[1]}:
                    return state, ((), RefusalKind.CONFLICT)
                values[path] = None
                answers.append(None)
    return tuple(values[key] for key in _KEYS), (tuple(answers), None)
