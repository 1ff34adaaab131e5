"""Contract tests for connectors: `mirror.replication.connector`.

To test a connector, write a test class that inherits a suite, with a fixture `rig`:

    class TestMySink(RecordSinkContract):
        @pytest.fixture
        def rig(self, tmp_path: Path) -> SinkRig:
            return MyRig(tmp_path)

The rig opens the connector, and returns the records that a reader would see.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final, Protocol, TypeVar

import pytest

from mirror.errors import Fenced, HeadraceError
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import Record
from mirror.replication.connector import Position, RecordPortion, RecordSink, RecordSource

T = TypeVar("T")
NOW: Final = 1_764_000_000_000
LARGE: Final = 70_000


class Rig(Protocol):
    """Runner of a connector."""

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run the steps to completion."""
        ...


class SinkRig(Rig, Protocol):
    """One storage, and sinks opened for it as by different processes."""

    place: TopicPartition

    def open(self) -> RecordSink:
        """Return a sink without shared state."""
        ...

    def seen(self, place: TopicPartition) -> Sequence[Record]:
        """Return the records of the partition that a reader sees, in order."""
        ...


class SourceRig(Rig, Protocol):
    """Source with one partition that contains `records`."""

    place: TopicPartition
    records: Sequence[Record]
    source: RecordSource


def plain(first: int, end: int) -> list[Record]:
    """Return a record for each offset."""
    return [Record(offset, NOW + offset, b"k%d" % offset, b"v%d" % offset) for offset in range(first, end)]


def special(first: int) -> list[Record]:
    """Return records with every detail that may be lost, with gaps in the offsets."""
    return [
        Record(first, NOW, None, None),
        Record(first + 1, NOW, b"", b""),
        Record(first + 4, NOW - 5, b"\xff\x00", b"\x00\xff", ((b"h", b"1"), (b"h", None), (b"", b""))),
        Record(first + 5, NOW, b"large", bytes(range(256)) * (LARGE // 256)),
    ]


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """Return everything except the offsets."""
    return [record.content for record in records]


async def start(sink: RecordSink, place: TopicPartition, offset: int = 0) -> None:
    """Take a new partition, and start there."""
    await sink.prepare({place.topic: place.partition + 1})
    assert await sink.take(place) is None
    await sink.commit(place, Position(offset, "origin"))


class RecordSinkContract:
    """Contract tests of `RecordSink`."""

    def test_what_is_committed_is_seen_whole_and_in_order(self, rig: SinkRig) -> None:
        sink, records = rig.open(), [*plain(0, 300), *special(300), *plain(306, 400)]
        rig.run(start(sink, rig.place))
        rig.run(sink.write(rig.place, records[:150]))
        rig.run(sink.write(rig.place, records[150:]))
        rig.run(sink.commit(rig.place, Position(400, "origin")))
        assert contents(rig.seen(rig.place)) == contents(records)
        sink.close()

    def test_the_next_owner_begins_where_the_last_commit_was(self, rig: SinkRig) -> None:
        first = rig.open()
        rig.run(start(first, rig.place, 7))
        rig.run(first.write(rig.place, plain(7, 10)))
        rig.run(first.commit(rig.place, Position(12, "origin")))
        rig.run(first.release(rig.place))
        second = rig.open()
        assert rig.run(second.take(rig.place)) == Position(12, "origin")
        rig.run(second.write(rig.place, plain(12, 15)))
        rig.run(second.commit(rig.place, Position(15, "origin")))
        second.close()
        assert contents(rig.seen(rig.place)) == contents([*plain(7, 10), *plain(12, 15)])

    def test_what_is_not_committed_is_never_seen(self, rig: SinkRig) -> None:
        first = rig.open()
        rig.run(start(first, rig.place))
        rig.run(first.write(rig.place, plain(0, 5)))
        rig.run(first.commit(rig.place, Position(5, "origin")))
        rig.run(first.write(rig.place, [*plain(5, 500), *special(500)]))
        first.close()  # as if the process had died
        second = rig.open()
        assert rig.run(second.take(rig.place)) == Position(5, "origin")
        assert contents(rig.seen(rig.place)) == contents(plain(0, 5))
        rig.run(second.write(rig.place, plain(5, 9)))
        rig.run(second.commit(rig.place, Position(9, "origin")))
        second.close()
        assert contents(rig.seen(rig.place)) == contents(plain(0, 9))

    def test_what_was_written_is_let_go_with_the_partition(self, rig: SinkRig) -> None:
        sink = rig.open()
        rig.run(start(sink, rig.place))
        rig.run(sink.write(rig.place, plain(0, 5)))
        rig.run(sink.release(rig.place))
        rig.run(sink.release(rig.place))
        assert rig.run(sink.take(rig.place)) == Position(0, "origin")
        rig.run(sink.commit(rig.place, Position(0, "origin")))
        assert rig.seen(rig.place) == []
        sink.close()

    def test_a_position_moves_without_records_too(self, rig: SinkRig) -> None:
        first = rig.open()
        rig.run(start(first, rig.place))
        rig.run(first.commit(rig.place, Position(40, "origin")))
        first.close()
        second = rig.open()
        assert rig.run(second.take(rig.place)) == Position(40, "origin")
        rig.run(second.write(rig.place, plain(41, 43)))
        rig.run(second.commit(rig.place, Position(43, "origin")))
        second.close()
        assert contents(rig.seen(rig.place)) == contents(plain(41, 43))

    def test_of_two_owners_only_one_commits(self, rig: SinkRig) -> None:
        first, second = rig.open(), rig.open()
        rig.run(start(first, rig.place))
        rig.run(first.write(rig.place, plain(0, 5)))
        try:
            rig.run(second.take(rig.place))
        except Fenced:
            rig.run(first.commit(rig.place, Position(5, "origin")))
            expected = plain(0, 5)
        else:
            with pytest.raises(Fenced):
                rig.run(first.commit(rig.place, Position(5, "origin")))
            rig.run(second.write(rig.place, plain(0, 3)))
            rig.run(second.commit(rig.place, Position(3, "origin")))
            expected = plain(0, 3)
        for sink in (first, second):
            sink.close()
        assert contents(rig.seen(rig.place)) == contents(expected)

    def test_partitions_are_apart(self, rig: SinkRig) -> None:
        sink, other = rig.open(), TopicPartition(rig.place.topic, rig.place.partition + 1)
        rig.run(sink.prepare({other.topic: other.partition + 1}))
        rig.run(start_all(sink, (rig.place, other)))
        rig.run(sink.write(rig.place, plain(0, 5)))
        rig.run(sink.write(other, plain(0, 2)))
        rig.run(sink.commit(rig.place, Position(5, "origin")))
        rig.run(sink.release(other))
        assert rig.run(sink.take(other)) == Position(0, "origin")
        sink.close()
        assert (len(rig.seen(rig.place)), len(rig.seen(other))) == (5, 0)


async def start_all(sink: RecordSink, places: Sequence[TopicPartition]) -> None:
    """Take partitions, and start at 0."""
    for place in places:
        assert await sink.take(place) is None
        await sink.commit(place, Position(0, "origin"))


class RecordSourceContract:
    """Contract tests of `RecordSource`."""

    def test_it_names_its_topics(self, rig: SourceRig) -> None:
        assert rig.run(rig.source.topics())[rig.place.topic] == rig.place.partition + 1

    def test_its_bounds_hold_every_record(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        assert bounds.first <= rig.records[0].offset <= rig.records[-1].offset < bounds.end
        assert rig.run(rig.source.bounds([rig.place]))[rig.place] == bounds

    def test_it_reads_every_record_as_it_was(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        assert rig.run(read(rig, bounds.first, bounds.end)) == list(rig.records)
        assert rig.run(read(rig, bounds.first, bounds.end)) == list(rig.records)

    def test_it_reads_any_range_and_nothing_else(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        offsets = [bounds.first, *(record.offset + 1 for record in rig.records[:: len(rig.records) // 6])]
        for first, end in zip(offsets, [*offsets[2:], bounds.end, bounds.end], strict=True):
            wanted = [record for record in rig.records if first <= record.offset < end]
            assert rig.run(read(rig, first, end)) == wanted

    def test_it_shows_the_offsets_of_what_it_reads_up_to_the_end(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        found = rig.run(portions(rig, bounds.first, bounds.end))
        assert all(one.span.next <= two.span.first for one, two in pairwise(found))
        assert found[-1].span.next >= bounds.end
        assert all(one.span.first <= record.offset < one.span.next for one in found for record in one.records)

    def test_a_reader_may_stop_in_the_middle(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        assert rig.run(portions(rig, bounds.first, bounds.end, most=1))
        assert rig.run(read(rig, bounds.first, bounds.end)) == list(rig.records)

    def test_it_does_not_end_before_the_end(self, rig: SourceRig) -> None:
        bounds = rig.run(rig.source.bounds([rig.place]))[rig.place]
        with pytest.raises(HeadraceError):
            rig.run(read(rig, bounds.first, bounds.end + 5))


async def portions(rig: SourceRig, first: int, end: int, most: int = 1_000_000) -> list[RecordPortion]:
    """Return at most `most` portions."""
    found: list[RecordPortion] = []
    async with aclosing(rig.source.read(rig.place, first, end)) as handed_out:
        async for portion in handed_out:
            found.append(portion)
            if len(found) == most:
                break
    return found


async def read(rig: SourceRig, first: int, end: int) -> list[Record]:
    """Return all records of the range."""
    return [record for portion in await portions(rig, first, end) for record in portion.records]
