"""Batches that a router makes of a log, compared with the plain model of the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.memory import BufferPool
from mirror.lane.out_batch import Item, OutBatch, Path
from mirror.lane.rules import MergeRule, Refusal, RoutingRules
from mirror.protocol.batches.records import Record, read_batch
from tests.models.source_log import SourceLog, header_of, last_of, source_logs

RULES = st.builds(
    RoutingRules,
    batch_limit=st.sampled_from([300, 500, 1_048_588]),
    merge=st.none()
    | st.builds(
        MergeRule, merged_bytes=st.sampled_from([400, 262_144]), payload_bytes=st.sampled_from([500, 10**6])
    ),
    opens_records=st.booleans(),
    opened_below=st.just(0) | st.integers(0, 150),
    opened_epoch=st.just(2**31 - 1),
    opens_singly=st.booleans(),
    takes_zstd=st.booleans(),
)


def walk(
    log: SourceLog, rules: RoutingRules, start: int, sizes: list[int], room: int = 10**9
) -> tuple[list[Item], ByteBudget]:
    """Fetch the log in pieces of these sizes (the last one repeats) until its end."""
    budget = ByteBudget(10**9)
    pool = BufferPool(1 << 16, budget)
    position, items = start, []
    while position < log.end:
        data = log.fetch(position, sizes.pop(0) if len(sizes) > 1 else sizes[0])
        if not data:
            break
        slab = pool.slab(len(data))
        assert slab is not None
        view = memoryview(slab.buffer)[: len(data)]
        view[:] = data
        router = BatchRouter(rules, position, budget, None, room)
        router.take(view, log.aborted_in(position), slab)
        slab.release()
        assert router.position > position, "a fetch without progress"
        position = router.position
        items += router.items
    return items, budget


def sent_records(items: list[Item]) -> list[Record]:
    """Return the records of all batches, with their source offsets."""
    found: list[Record] = []
    for item in items:
        if isinstance(item, OutBatch):
            header = header_of(item.batch)
            assert header.is_dense
            records = read_batch(item.batch, header)
            assert len(records) == item.count
            offsets = [first + step for first, count in item.runs for step in range(count)]
            found += [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=True)]
    return found


def ledger_of(items: list[Item], start: int) -> Ledger:
    ledger = Ledger(start)
    for item in items:
        if isinstance(item, OutBatch):
            assert item.first_offset == ledger.next
            ledger.enter_batch(item.runs, item.origin.passed)
            assert item.next_offset == ledger.next
        else:
            ledger.pass_over(item)
    return ledger


@given(source_logs(old_formats=True), RULES, st.data())
def test_every_offset_has_its_class_and_every_record_its_batch(
    log: SourceLog, rules: RoutingRules, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, log.end))
    sizes = data.draw(st.lists(st.integers(1, 600), min_size=1, max_size=5))
    items, _ = walk(log, rules, start, sizes, data.draw(st.sampled_from([1, 7, 10**9])))
    expected = [record for record in log.visible if record.offset >= start]
    assert sent_records(items) == expected
    ledger = ledger_of(items, start)
    assert ledger.is_balanced
    last = last_of(log.batches[-1]) + 1 if log.batches else start
    assert ledger.next == max(start, last)
    for offset_class in (OffsetClass.MIRRORED, OffsetClass.CONTROL, OffsetClass.ABORTED):
        assert ledger.total(offset_class) == sum(
            1 for offset, found in log.offset_classes.items() if found == offset_class and offset >= start
        )


@given(source_logs(), RULES)
def test_no_batch_is_larger_than_the_destination_takes(log: SourceLog, rules: RoutingRules) -> None:
    items, _ = walk(log, rules, log.start, [10**6])
    assert all(len(item.batch) <= rules.batch_limit for item in items if isinstance(item, OutBatch))


@given(source_logs())
def test_a_batch_passes_unopened_when_nothing_has_to_change(log: SourceLog) -> None:
    items, _ = walk(log, RoutingRules(), log.start, [10**6])
    passed = [
        bytes(item.batch)
        for item in items
        if isinstance(item, OutBatch) and item.origin.path is Path.PASSTHROUGH
    ]
    intact = [
        bytes(batch)
        for batch in log.batches
        if header_of(batch).is_dense
        and header_of(batch).record_count
        and not header_of(batch).attributes & ~7
    ]
    assert passed == intact


@given(source_logs(), RULES)
def test_all_memory_comes_back(log: SourceLog, rules: RoutingRules) -> None:
    items, budget = walk(log, rules, log.start, [700])
    for item in items:
        if isinstance(item, OutBatch):
            item.free()
    assert budget.used == 0


@given(source_logs(), st.data())
def test_records_can_be_dropped_changed_and_left_out(log: SourceLog, data: st.DataObject) -> None:
    omitted = (
        data.draw(st.sets(st.sampled_from([record.offset for record in log.visible])))
        if log.visible
        else set()
    )
    rules = RoutingRules(
        transforms=(
            lambda record: record._replace(value=b"new"),
            lambda record: None if record.timestamp % 3 == 0 else record,
        ),
        omitted=dict.fromkeys(omitted, Refusal(OffsetClass.DEAD_LETTERED, 2**31 - 1)),
    )
    items, _ = walk(log, rules, log.start, [10**6])
    kept = [record for record in log.visible if record.offset not in omitted and record.timestamp % 3]
    assert sent_records(items) == [record._replace(value=b"new") for record in kept]
    ledger = ledger_of(items, log.start)
    assert ledger.total(OffsetClass.DEAD_LETTERED) == len(omitted)
    assert ledger.total(OffsetClass.FILTERED) == len(log.visible) - len(omitted) - len(kept)


@given(source_logs(), RULES, st.data())
def test_a_damaged_batch_stops_the_lane_exactly_there(
    log: SourceLog, rules: RoutingRules, data: st.DataObject
) -> None:

    victim = data.draw(st.integers(0, len(log.batches) - 1)) if log.batches else None
    if victim is None:
        return
    log.batches[victim][-1] ^= 0xFF
    header = header_of(log.batches[victim])
    budget = ByteBudget(10**9)
    whole = log.fetch(log.start, 10**9)
    slab = BufferPool(1 << 16, budget).slab(len(whole))
    assert slab is not None
    router = BatchRouter(rules, log.start, budget)
    with pytest.raises(CorruptData, match=str(header.base_offset)):
        router.take(whole, log.aborted_in(log.start), slab)
    assert router.position <= header.base_offset
    assert sent_records(router.items) == [
        record for record in log.visible if record.offset < header.base_offset
    ]
    ledger = ledger_of(router.items, log.start)
    assert ledger.next == router.position
