"""Test reading ahead against a model of a broker: every batch is passed on once, in order, whatever arrives
first."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.channels.read_plan import OffsetRange, ReadPlan, from_position, header_at
from tests.examples import examples

_HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True)
class Batch:
    """A batch of a log: first and last offset, and size in bytes."""

    first: int
    last: int
    size: int

    def encode(self) -> bytes:
        """Return its bytes."""
        count = self.last - self.first + 1
        header = _HEADER.pack(self.first, self.size - 12, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
        return header.ljust(self.size, b"x")


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Logs of even or uneven batches, with holes of compaction."""
    is_even, has_holes = draw(st.booleans()), draw(st.booleans())
    span, size = draw(st.integers(1, 20)), draw(st.integers(70, 400))
    offset, found = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(1, 40))):
        if not is_even:
            span, size = draw(st.integers(1, 20)), draw(st.integers(70, 400))
        if has_holes and draw(st.booleans()):
            offset += draw(st.integers(1, 60))
        found.append(Batch(offset, offset + span - 1, size))
        offset += span
    return found


def fetched(log: list[Batch], offset: int, size: int) -> FetchedPartition:
    """Return the response of a broker: from the batch with that offset on, at least one, the last cut."""
    batches = [batch for batch in log if batch.last >= offset]
    whole = b"".join(batch.encode() for batch in batches)
    cut = memoryview(whole[: max(size, batches[0].size if batches else 0)])
    end = log[-1].last + 1
    return FetchedPartition(b"t", 0, 0, end, end, 0, (), None, None, -1, cut)


@settings(max_examples=examples(300))
@given(log=logs(), ask=st.integers(1, 2_000), depth=st.integers(1, 6), data=st.data())
def test_every_batch_is_passed_on_once_in_order(
    log: list[Batch], ask: int, depth: int, data: st.DataObject
) -> None:
    plan, position, end = ReadPlan(), log[0].first, log[-1].last + 1
    plan.learn(fetched(log, position, data.draw(st.integers(1, 1_000), "first response")).records)
    slabs: list[ReceiveBuffer] = []
    under_way: list[OffsetRange] = []
    passed: list[int] = []
    while position < end:
        plan.prune(position)
        if plan.head(position) is None:
            under_way.append(plan.fill_gap(position, end, ask))
        while len(plan.ranges) < depth and plan.has_more(end):
            under_way.append(plan.extend(end, ask))
        if under_way:
            arrived = under_way.pop(data.draw(st.integers(0, len(under_way) - 1), "arrives"))
            if not arrived.is_dropped:
                slabs.append(ReceiveBuffer(bytearray(), None))
                arrived.fill(fetched(log, arrived.start, arrived.size), slabs[-1])
                slabs[-1].release()
        if data.draw(st.integers(0, 9), "lacks memory") == 0:
            plan.drop_last_held()
        while (head := plan.head(position)) is not None and head.part is not None:
            assert head.start <= position
            plan.ranges.popleft()
            records = from_position(head.part.records, position)
            place = 0
            while (header := header_at(records, place)) is not None:
                passed.append(header.base_offset)
                position, place = header.last_offset + 1, place + 12 + header.length
            head.drop()
    assert passed == [batch.first for batch in log]
    plan.clear()
    assert all(slab.holders == 0 for slab in slabs)


def test_even_batches_are_requested_whole() -> None:
    log = [Batch(first, first + 9, 100) for first in range(0, 1_000, 10)]
    plan = ReadPlan()
    plan.learn(fetched(log, 0, 1_000).records)
    plan.prune(200)
    asked = [plan.extend(1_000, 450) for _ in range(3)]
    assert [(each.start, each.stop) for each in asked] == [(200, 240), (240, 280), (280, 320)]
    assert all(from_position(fetched(log, each.start, each.size).records, each.start) for each in asked)


def test_nothing_is_requested_beyond_the_end() -> None:
    plan = ReadPlan()
    plan.learn(fetched([Batch(0, 9, 100)], 0, 1_000).records)
    plan.prune(0)
    assert (plan.extend(15, 100).stop, plan.extend(15, 100).stop, plan.has_more(15)) == (10, 15, False)


def test_messages_of_older_formats_are_not_read_ahead() -> None:
    plan = ReadPlan()
    plan.learn(memoryview(bytes(200)))
    assert not plan.is_known
