"""What a lane says of itself, and how the CPU time of a worker is shared out."""

from __future__ import annotations

import pytest

from mirror.copying.live_lane import LiveLane
from mirror.copying.measuring import Interval, share_cpu, take_metric
from mirror.lane.memory import ByteBudget
from mirror.lane.outgoing import Outgoing
from mirror.model.metrics import MirrorMetric
from mirror.wire.batch import ProducerStamp
from mirror.wire.records import Record, write_batch
from tests.builders import a_spec

NOW_MS = 1_000_000
WHEN = Interval(NOW_MS, 5_000, "one")


def a_lane(high_watermark: int = 10) -> LiveLane:
    lane = LiveLane(a_spec(), 1_000, ())
    lane.begin(0)
    lane.high_watermark = high_watermark
    return lane


def deliver(lane: LiveLane, count: int, began: float, fetched: float, sent: float, done: float) -> None:
    """One batch of records that are 100 ms old when it is acknowledged."""
    records = [Record(offset, NOW_MS - 100, None, b"x") for offset in range(count)]
    outgoing = Outgoing(memoryview(write_batch(records)), ((0, count),), count, 0, count)
    outgoing.max_timestamp = NOW_MS - 100
    outgoing.payload_bytes = 7
    outgoing.began_at, outgoing.fetched_at = began, fetched
    outgoing.charge(ByteBudget(10_000))
    lane.queue.append(outgoing)
    lane.identify(ProducerStamp(1, 0))
    assert lane.next_to_send() is outgoing
    outgoing.sent_at = sent
    lane.acknowledge(outgoing, 0, NOW_MS, done)


def test_the_latency_is_split_by_where_it_was_spent() -> None:
    lane = a_lane()
    deliver(lane, 10, began=1.0, fetched=1.010, sent=1.030, done=1.060)
    metric = take_metric(lane, WHEN)
    assert metric is not None
    assert (metric.records_copied, metric.batches, metric.passthrough_batches) == (10, 1, 1)
    assert (metric.lag_records, metric.lag_ms, metric.uncompressed_bytes) == (0, 0, 7)
    spent = (metric.wait_ms, metric.fetch_ms, metric.queue_ms, metric.produce_ms)
    assert spent == pytest.approx((40, 10, 20, 30))
    assert sum(metric.latency_counts) == 10
    assert metric.latency_counts[7] == 10


def test_an_idle_lane_says_so_once() -> None:
    lane = a_lane(high_watermark=0)
    first = take_metric(lane, WHEN)
    assert first is not None
    assert (first.records_copied, first.lag_records) == (0, 0)
    assert take_metric(lane, WHEN) is None
    lane.high_watermark = 3
    behind = take_metric(lane, WHEN)
    assert behind is not None
    assert behind.lag_records == 3
    lane.ledger.next = 3
    again = take_metric(lane, WHEN)
    assert again is not None
    assert again.lag_records == 0
    assert take_metric(lane, WHEN) is None


def test_before_the_source_has_answered_nothing_is_said() -> None:
    assert take_metric(a_lane(high_watermark=-1), WHEN) is None


def test_the_shares_of_cpu_time_add_up() -> None:
    def metric(batches: int, size: int) -> MirrorMetric:
        return MirrorMetric(0, 0, "", "", "", "", "", 0, 0, size, batches, 0, 0, 0, ())

    shared = share_cpu([metric(1, 0), metric(0, 10_000), metric(2, 0), metric(0, 0)], 400.0)
    assert [one.cpu_ms for one in shared] == pytest.approx([100, 100, 200, 0])
    idle = [metric(0, 0)]
    assert share_cpu(idle, 5.0) == idle
