"""What stands at the other end of Kafka: the two Protocols of a connector, and how one is found.

A connector brings a `RecordSource`, a `RecordSink` or both. It is reached by `NAME:/PATH`, such as
`file:/var/landing`, and found by an entry point of the groups `headrace.sources` and `headrace.sinks`: a
function that takes what stands behind the colon. `mirror.jobs.transfer_job` runs records from one to the
other. It never asks what they are, so what it promises rests on the contract below, which
`tests/contract/mirror/test_connectors.py` holds every connector to, Kafka's own among them.

Kafka to Kafka does not come here: the lanes of the engine pass batches on unopened.
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
"""Connectors that are part of Headrace, by group and name, as entry points name them."""
_REFERENCE: Final = re.compile(r"([a-z][a-z0-9+-]*):(/.*)")


class Bounds(NamedTuple):
    """The records of a partition that can be read lie in [first, end). `origin`: which log these offsets are
    of, as its source calls it; a topic that is deleted and created again has another one. Empty: not known.
    """

    first: int
    end: int
    origin: str = ""


class Position(NamedTuple):
    """Every record of that origin below `next_offset` is committed, or was left out on purpose."""

    next_offset: int
    origin: str = ""


class CommitRule(NamedTuple):
    """The bytes of keys and values, and the seconds, after which a sink wants to commit what was written."""

    most_bytes: int
    most_seconds: float


class Portion(NamedTuple):
    """All records that a source has in the offsets of `span`, in order; maybe none. `span` is what the source
    showed, such as a batch's offsets by its header. Offsets before it that no portion had have no record.
    """

    span: Span
    records: Sequence[Record] = ()


class RecordSource(Protocol):
    """Reads partitions. The record at an offset never changes; offsets may have holes."""

    async def topics(self) -> Mapping[str, int]:
        """The number of partitions of every topic. Raises Unreachable."""
        ...

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """What can be read now; without the partitions of which that is not known. Raises Unreachable."""
        ...

    def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[Portion, None]:
        """The records in [start, end), in order, some at a time, each time with the offsets that they were
        found in. It ends when those reach `end`, and never before: what cannot be read now raises
        Unreachable, what is damaged CorruptData, and what is gone DataLossDetected."""
        ...

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        ...


class RecordSink(Protocol):
    """Writes partitions. `commit` is the only step that counts: the records since the last one and the new
    position become durable and visible together, or neither does, whenever the process dies.

    Where nothing was committed before, the position to begin at is, before the first record is written. After
    any error the partition has to be taken again, which shows what was committed in the end.
    `guarantees`: what a copy into it may promise. `commit_rule`: when it wants to commit.
    """

    @property
    def guarantees(self) -> Collection[Guarantee]:
        """What a copy into it may promise."""
        ...

    @property
    def commit_rule(self) -> CommitRule:
        """When it wants to commit."""
        ...

    async def prepare(self, topics: Mapping[str, int]) -> None:
        """Make room for topics, by their numbers of partitions; what is there already stays as it is."""
        ...

    async def take(self, place: TopicPartition) -> Position | None:
        """Become the owner of the partition. Of several owners only one can commit: either a second one gets
        Fenced here while the first lives, or the first gets Fenced when it commits.

        Returns what was committed last, None when nothing was. Raises Fenced, Unreachable.
        """
        ...

    async def write(self, place: TopicPartition, records: Sequence[Record]) -> None:
        """Take over more records of a partition that was taken, in order. Raises Unreachable, also for want
        of room, Refused for a record that cannot be stored, Fenced."""
        ...

    async def commit(self, place: TopicPartition, position: Position) -> None:
        """Make what was written, and the position, durable. Raises what `write` raises."""
        ...

    async def release(self, place: TopicPartition) -> None:
        """Give the partition up; what was written since the last commit is let go. Raises nothing."""
        ...

    def close(self) -> None:
        """Let go of everything that was not committed. Idempotent."""
        ...


@runtime_checkable
class LedgerKeeper(Protocol):
    """A sink that counts what became of every offset."""

    def pass_over(self, place: TopicPartition, skipped: SkippedOffsets) -> None:
        """Note offsets that are not written, before any record behind them is."""
        ...


def is_connector(reference: str) -> bool:
    """Whether the text names a connector, and not a cluster."""
    return _REFERENCE.fullmatch(reference) is not None


def open_source(reference: str) -> RecordSource:
    """The source of `NAME:/PATH`. Raises ConfigError for an unknown one, or a path that it cannot use."""
    source: RecordSource = _open(SOURCES, "source", reference)
    return source


def open_sink(reference: str) -> RecordSink:
    """The sink of `NAME:/PATH`. Raises ConfigError for an unknown one, or a path that it cannot use."""
    sink: RecordSink = _open(SINKS, "sink", reference)
    return sink


def _open(group: str, kind: str, reference: str) -> Any:
    from importlib.metadata import EntryPoint, entry_points  # it loads the e-mail package

    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{reference!r} names no connector", advice="write it as file:/var/landing")
    name, path = match.groups()
    found = {entry.name: entry for entry in entry_points(group=group)}
    found |= {own: EntryPoint(own, value, group) for own, value in BUILT_IN[group].items()}
    if name not in found:
        raise ConfigError(f"there is no {kind} {name!r}", advice=f"there are {', '.join(sorted(found))}")
    return _opened(found[name], path)


def _opened(entry: EntryPoint, path: str) -> Any:
    try:
        make: Callable[[str], Any] = entry.load()
        return make(path)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the connector {entry.name!r} of {entry.value} cannot be opened:"
            f" {type(error).__name__}: {error}",
            advice="look at what stands behind its colon and at its package",
        ) from error
