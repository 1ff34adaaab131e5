"""Test that all counters of lanes add up."""

from __future__ import annotations

import pytest

from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.counters import LaneCounters
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.lane.rules import RoutingRules
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.movement.append_times import AppendTimes
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record

NOW_MS = 1_700_000_000_000


def values(counters: LaneCounters) -> dict[str, object]:
    found = {name: getattr(counters, name) for name in dir(counters) if not name.startswith("_")}
    return {name: value for name, value in found.items() if not callable(value)}


def filled(start: int) -> LaneCounters:
    """Return counters with a different value each."""
    counters = LaneCounters()
    counters.latency = [0] * LATENCY_BUCKETS
    for number, (name, value) in enumerate(values(counters).items(), start):
        filling = [number] * len(value) if isinstance(value, list) else type(value)(number)  # type: ignore[call-arg]
        setattr(counters, name, filling)
    return counters


def test_every_counter_adds_up() -> None:
    sums = filled(1)
    sums.add(filled(100))
    expected = filled(101)
    for number, (name, value) in enumerate(values(expected).items()):
        doubled = 101 + 2 * number
        setattr(expected, name, [doubled] * len(value) if isinstance(value, list) else doubled)
    assert values(sums) == values(expected)


@pytest.mark.parametrize(
    ("timestamp", "counted"), [(NOW_MS - 40, 2), (NOW_MS + 900, 2), (NOW_MS + 3_600_000, 0), (-1, 0)]
)
def test_records_whose_time_says_no_age_are_in_no_bucket(timestamp: int, counted: int) -> None:
    records = [Record(offset, timestamp, None, b"v") for offset in range(2)]
    outgoing = OutBatch(memoryview(write_batch(records)), ((0, 2),), 2, 0, 2)
    outgoing.max_timestamp = timestamp
    counters = LaneCounters()
    counters.delivered(outgoing, NOW_MS, 0.0, AppendTimes())
    assert (counters.records_copied, sum(counters.latency)) == (2, counted)
    assert counters.wait_ms < 1_000


def test_each_record_of_a_merged_batch_is_as_late_as_its_source_batch() -> None:
    router = BatchRouter(RoutingRules(opens_records=True), 0, ByteBudget(10_000))
    ages_ms = [30_000, 30_000, 4_000, 100]
    records = [Record(offset, NOW_MS - age, None, b"v") for offset, age in enumerate(ages_ms)]
    slab = ReceiveBuffer(bytearray(0), None)
    router.take(memoryview(write_batch(records)), (), slab)
    (outgoing,) = router.items
    assert isinstance(outgoing, OutBatch)
    assert (outgoing.first_timestamp, outgoing.max_timestamp) == (NOW_MS - 30_000, NOW_MS - 100)
    counters = LaneCounters()
    counters.delivered(outgoing, NOW_MS, 0.0, AppendTimes())
    expected = [0] * LATENCY_BUCKETS
    for age in ages_ms:
        expected[latency_bucket(age)] += 1
    assert counters.latency == expected
    assert counters.wait_ms == sum(ages_ms) / len(ages_ms)
