"""Transactional ids: producer ids and epochs, open transactions, and the markers that end them.

Source: Apache Kafka 4.1, `TransactionCoordinator`. The outcomes of both protocols (KIP-890) match real
brokers in tests/contract/kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tests.fakes.broker import batches
from tests.fakes.broker.topics import Partition

Place = tuple[str, int]
"""Topic and partition number."""

INVALID_STATE: Final = 48
INVALID_MAPPING: Final = 49
CONCURRENT: Final = 51
FENCED: Final = 90
BAD_TIMEOUT: Final = 50
UNKNOWN_PARTITION: Final = 3
NOT_ATTEMPTED: Final = 55
_REPLICATION_TICK: Final = 0.01
LAST_EPOCH: Final = 32_766
_MOST_TIMEOUT_MS: Final = 900_000


class State(Enum):
    """State of a transactional id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    ENDING = "PrepareCommit or PrepareAbort"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class Identity(NamedTuple):
    """Response with a producer id; the id is -1 on an error."""

    error: int
    producer: int
    epoch: int


@dataclass
class Transactional:
    """One transactional id. `generation` counts transactions, so that a late timer ends no newer one."""

    producer: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    places: dict[Place, None] = field(default_factory=dict)
    generation: int = 0
    has_markers: bool = False
    """Whether the markers of the ending transaction are written."""
    commits: bool = False
    """Whether the ending transaction commits."""
    last_epoch: int = -1
    """Previous epoch, which the same client may use once more."""


class Coordinator:
    """Transaction coordinator. `partition` finds a partition, `later` runs an action after some seconds.

    `now_ms` is the wall clock. Markers are written `marker_seconds` after a transaction is decided.
    """

    def __init__(
        self,
        partition: Callable[[Place], Partition | None],
        later: Callable[[float, Callable[[], None]], object],
        now_ms: Callable[[], int],
    ) -> None:
        self.marker_seconds = 0.0
        self.known: dict[str, Transactional] = {}
        self._partition = partition
        self._later = later
        self._now_ms = now_ms
        self._next_producer = 1000

    def new_producer(self) -> int:
        """Return a new producer id."""
        self._next_producer += 1
        return self._next_producer

    def init(self, name: str | None, timeout_ms: int, known: tuple[int, int]) -> Identity:
        """Return a producer id under a new epoch. `known`: id and epoch of the client, or -1."""
        if name is None:
            return Identity(0, self.new_producer(), 0)
        if not 0 < timeout_ms <= _MOST_TIMEOUT_MS:
            return Identity(BAD_TIMEOUT, -1, -1)
        entry = self.known.get(name)
        if entry is None:
            entry = self.known[name] = Transactional(self.new_producer(), -1, timeout_ms)
        elif known[0] >= 0 and known[0] != entry.producer:
            return Identity(FENCED, -1, -1)
        if entry.state is State.ENDING:
            return Identity(CONCURRENT, -1, -1)
        if entry.state is State.ONGOING:  # regardless of the client's epoch
            entry.last_epoch, entry.epoch = entry.epoch, entry.epoch + 1
            self._finish(entry, commit=False, bump=False)
            return Identity(CONCURRENT, -1, -1)
        if known[0] >= 0 and entry.epoch >= 0 and known[1] not in (entry.epoch, entry.last_epoch):
            return Identity(FENCED, -1, -1)
        entry.timeout_ms, entry.state = timeout_ms, State.EMPTY
        if known[0] < 0 or known[1] == entry.epoch:
            self._bump(entry)
            entry.last_epoch = known[1]
        return Identity(0, entry.producer, entry.epoch)

    def add(self, name: str, producer: int, epoch: int, places: list[Place]) -> int:
        """Start or extend a transaction; return an error code for all places."""
        entry = self.known.get(name)
        if entry is None or entry.producer != producer:
            return INVALID_MAPPING
        if entry.epoch != epoch:
            return FENCED
        if entry.state is State.ENDING:
            return CONCURRENT
        if entry.state is not State.ONGOING:
            entry.state = State.ONGOING
            entry.generation += 1
            generation = entry.generation
            self._later(entry.timeout_ms / 1000, lambda: self._time_out(entry, generation))
        entry.places.update(dict.fromkeys(places))
        return 0

    def has(self, name: str, producer: int, place: Place) -> bool:
        """Return whether the partition belongs to the open transaction."""
        entry = self.known.get(name)
        is_open = entry is not None and entry.producer == producer and entry.state is State.ONGOING
        return entry is not None and is_open and place in entry.places

    def is_outdated(self, name: str, producer: int, epoch: int) -> bool:
        """Return whether the transactional id has another epoch now."""
        entry = self.known.get(name)
        return entry is not None and entry.producer == producer and entry.epoch != epoch

    def end(self, name: str, producer: int, epoch: int, *, commit: bool, bumps: bool) -> Identity:
        """Commit or abort. `bumps`: use the newer protocol, in which every transaction has its own epoch."""
        entry = self.known.get(name)
        if entry is None or entry.producer != producer:
            return Identity(INVALID_MAPPING, -1, -1)
        done = State.COMMITTED if commit else State.ABORTED
        if bumps and epoch == entry.epoch - 1 and entry.state is done:
            return Identity(0, entry.producer, entry.epoch)
        if epoch != entry.epoch:
            if not bumps or epoch != entry.epoch - 1:
                return Identity(FENCED, -1, -1)
            is_other = entry.state in (State.COMMITTED, State.ABORTED)
            return Identity(
                CONCURRENT if entry.state is State.ENDING else INVALID_STATE if is_other else FENCED, -1, -1
            )
        if entry.state is State.ENDING:
            return Identity(CONCURRENT, -1, -1)
        if entry.state is State.ONGOING:
            self._finish(entry, commit=commit, bump=bumps)
            return self._ended(entry, bumps=bumps)
        if bumps:
            if commit:
                return Identity(INVALID_STATE, -1, -1)
            entry.state = State.ABORTED
            self._bump(entry)
            return self._ended(entry, bumps=True)
        return Identity(0 if entry.state is done else INVALID_STATE, -1, -1)

    def fence(self, name: str) -> None:
        """Initialize the transactional id from another client, which fences its owner."""
        while self.init(name, 60_000, (-1, -1)).error:
            entry = self.known[name]
            if entry.state is State.ENDING:
                self._write_markers(entry, commit=False)

    def _ended(self, entry: Transactional, *, bumps: bool) -> Identity:
        return Identity(0, entry.producer, entry.epoch) if bumps else Identity(0, -1, -1)

    def _bump(self, entry: Transactional) -> None:
        if entry.epoch >= LAST_EPOCH:
            entry.producer, entry.epoch = self.new_producer(), 0
        else:
            entry.epoch += 1

    def _finish(self, entry: Transactional, *, commit: bool, bump: bool) -> None:
        if bump:
            entry.last_epoch, entry.epoch = entry.epoch, entry.epoch + 1
        entry.state, entry.has_markers, entry.commits = State.ENDING, False, commit
        if self.marker_seconds:
            self._later(self.marker_seconds, lambda: self._write_markers(entry, commit=commit))
        else:
            self._write_markers(entry, commit=commit)

    def _write_markers(self, entry: Transactional, *, commit: bool) -> None:
        if entry.state is not State.ENDING or entry.has_markers:
            return
        entry.has_markers = True
        now_ms = self._now_ms()
        for place in entry.places:
            partition = self._partition(place)
            if partition is not None:
                kind = batches.COMMIT if commit else batches.ABORT
                data = batches.marker(entry.producer, entry.epoch, kind, now_ms)
                partition.log.append(data, partition.epoch, now_ms)
        self._complete(entry, list(entry.places), State.COMMITTED if commit else State.ABORTED)

    def _complete(self, entry: Transactional, places: list[Place], state: State) -> None:
        """Complete the transaction once the markers are replicated: brokers write them with acks=all."""
        partitions = [self._partition(place) for place in places]
        if all(one is None or one.log.is_replicated for one in partitions):
            entry.places.clear()
            entry.state = state
        else:
            self._later(_REPLICATION_TICK, lambda: self._complete(entry, places, state))

    def _time_out(self, entry: Transactional, generation: int) -> None:
        if entry.state is State.ONGOING and entry.generation == generation:
            entry.last_epoch, entry.epoch = entry.epoch, entry.epoch + 1
            self._finish(entry, commit=False, bump=False)
