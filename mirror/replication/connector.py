"""Protocols of connectors to systems other than Kafka, and the lookup of installed connectors.

A connector provides a `RecordSource`, a `RecordSink` or both. Users name a connector as `NAME:/PATH`, such as
`file:/var/landing`. A package registers a connector as an entry point of the group `headrace.sources` or
`headrace.sinks`: a function whose argument is the text after the colon. `mirror.jobs.transfer_job` copies
records from a source to a sink, and relies only on the contract in this module.
`tests/contract/mirror/test_connectors.py` checks every connector, including Kafka's own.

Kafka-to-Kafka copies do not use connectors: lanes copy whole batches without decompressing them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from mirror.errors import ConfigError
from mirror.lane.ledger import SkippedOffsets
from mirror.model.datastreams.policy import Guarantee
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.holes import Span
from mirror.protocol.batches.records import Record

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SOURCES: Final = "headrace.sources"
SINKS: Final = "headrace.sinks"
_FILES: Final = "mirror.replication.connectors.files"
BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    SOURCES: {"file": f"{_FILES}:open_source"},
    SINKS: {"file": f"{_FILES}:open_sink"},
}
"""Maps each group and name to a built-in connector, in the notation of entry points."""
_REFERENCE: Final = re.compile(r"([a-z][a-z0-9+-]*):(/.*)")


class Bounds(NamedTuple):
    """Readable offsets [first, end) of a partition. `origin` identifies the log: it changes when a topic is
    deleted and created again. Empty if unknown."""

    first: int
    end: int
    origin: str = ""


class Position(NamedTuple):
    """A committed position. All earlier records of the log `origin` are committed or skipped on purpose."""

    next_offset: int
    origin: str = ""


class CommitRule(NamedTuple):
    """Limits at which records are committed: bytes of keys and values, and seconds since the last commit."""

    most_bytes: int
    most_seconds: float


class RecordPortion(NamedTuple):
    """Consecutive records of a partition, possibly none, and the offset range `span` that they come from,
    such as that of a batch header. Offsets between consecutive spans have no record."""

    span: Span
    records: Sequence[Record] = ()


class RecordSource(Protocol):
    """A reader of partitions. The record at an offset never changes; some offsets may have no record."""

    async def topics(self) -> Mapping[str, int]:
        """Return the partition count of every topic. Raises Unreachable."""
        ...

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return the readable offset range of each partition, if known. Raises Unreachable."""
        ...

    def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[RecordPortion, None]:
        """Yield the records with offsets in [start, end) in order, in portions with their offset ranges.

        The portions must reach `end`. Raises Unreachable if the range is temporarily unreadable, CorruptData
        if it is damaged, and DataLossDetected if it is missing.
        """
        ...

    def close(self) -> None:
        """Release all resources of the source. Idempotent."""
        ...


class RecordSink(Protocol):
    """A writer of partitions to another system, such as files.

    `commit` makes the records since the last commit and the new position durable and visible together, or
    neither of them if the process dies. For a partition without a committed position, the start position is
    committed before the first record is written. After an error, `take` must be called again, which returns
    the committed position. `guarantees`: supported delivery guarantees. `commit_rule`: when to commit.
    """

    @property
    def guarantees(self) -> Collection[Guarantee]:
        """Delivery guarantees that the sink supports."""
        ...

    @property
    def commit_rule(self) -> CommitRule:
        """Limits after which the caller commits."""
        ...

    async def prepare(self, topics: Mapping[str, int]) -> None:
        """Create missing topics with the given numbers of partitions. Existing topics stay unchanged."""
        ...

    async def take(self, place: TopicPartition) -> Position | None:
        """Acquire the partition, and return its last committed position, or None without one.

        Only one owner can commit: `take` raises Fenced while another owner lives, or fences the other owner.
        Raises Fenced, Unreachable.
        """
        ...

    async def write(self, place: TopicPartition, records: Sequence[Record]) -> None:
        """Add records, in order, to a partition that this sink owns. Raises Unreachable (also if the storage
        is full), Refused for a record that cannot be stored, and Fenced."""
        ...

    async def commit(self, place: TopicPartition, position: Position) -> None:
        """Make the written records and the position durable. Raises the errors of `write`."""
        ...

    async def release(self, place: TopicPartition) -> None:
        """Release the partition and discard uncommitted records. Does not raise."""
        ...

    def close(self) -> None:
        """Discard uncommitted records and release all resources of the sink. Idempotent."""
        ...


@runtime_checkable
class LedgerKeeper(Protocol):
    """A sink that also stores the class of every source offset (mirrored, filtered, compacted, ...)."""

    def pass_over(self, place: TopicPartition, skipped: SkippedOffsets) -> None:
        """Store the class of skipped offsets. Called before a later record is written."""
        ...


def is_connector(reference: str) -> bool:
    """Return whether a source or destination names a connector instead of a cluster."""
    return _REFERENCE.fullmatch(reference) is not None


def open_source(reference: str) -> RecordSource:
    """Open the source connector `NAME:/PATH`. Raises ConfigError for an unknown name or an unusable path."""
    source: RecordSource = _open(SOURCES, "source", reference)
    return source


def open_sink(reference: str) -> RecordSink:
    """Open the sink connector `NAME:/PATH`. Raises ConfigError for an unknown name or an unusable path."""
    sink: RecordSink = _open(SINKS, "sink", reference)
    return sink


def _open(group: str, kind: str, reference: str) -> Any:
    from importlib.metadata import EntryPoint, entry_points  # loads the email package

    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{reference!r} is not a connector address", advice="write file:/var/landing")
    name, path = match.groups()
    found = {entry.name: entry for entry in entry_points(group=group)}
    found |= {own: EntryPoint(own, value, group) for own, value in BUILT_IN[group].items()}
    if name not in found:
        raise ConfigError(f"unknown {kind} {name!r}", advice=f"available: {', '.join(sorted(found))}")
    return _opened(found[name], path)


def _opened(entry: EntryPoint, path: str) -> Any:
    try:
        make: Callable[[str], Any] = entry.load()
        return make(path)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"cannot open connector {entry.name!r} ({entry.value}): {type(error).__name__}: {error}",
            advice="check the text after the colon and the connector's package",
        ) from error
