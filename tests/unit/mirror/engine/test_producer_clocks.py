"""Test the latency and lag of records with timestamps of wrong clocks; in virtual time."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mirror.model.latency import LATENCY_BOUNDS_MS, LATENCY_BUCKETS
from mirror.replication.reports.measurements import has_response, lag_ms
from tests.fakes.broker import batches
from tests.fakes.broker.mirrored import MirroredFakes

MINUTE_MS = 60_000
DAY_MS = 86_400_000
APPEND_TIME = 1 << 3


class Counted(NamedTuple):
    """Number of records with a latency up to about 2 s, number of all, and their maximum latency."""

    soon: int
    total: int
    most_ms: float


class Producers:
    """Producers of one topic, each with its own clock."""

    def __init__(self, fakes: MirroredFakes) -> None:
        self.fakes = fakes
        self.written = 0

    def write(self, offset_ms: int | None) -> None:
        """Append one record of a clock with this offset, or without a timestamp for None."""
        stamp = -1 if offset_ms is None else self.fakes.clock.now_ms() + offset_ms
        self.fakes.source.write("t", [(stamp, b"key", b"%d" % self.written, [])])
        self.written += 1

    def run(self, seconds: int, *offsets_ms: int | None) -> None:
        """Append one record per second for each of these offsets."""
        for _ in range(seconds):
            for offset_ms in offsets_ms:
                self.write(offset_ms)
            self.fakes.run(1)

    def counted(self) -> Counted:
        """Return the latencies measured since the last call."""
        counts = [0] * LATENCY_BUCKETS
        for metric in self.fakes.engine.metrics():
            counts = [one + more for one, more in zip(counts, metric.latency_counts, strict=True)]
        used = [at for at, count in enumerate(counts) if count]
        most_ms = LATENCY_BOUNDS_MS[min(used[-1], len(LATENCY_BOUNDS_MS) - 1)] if used else 0.0
        return Counted(sum(counts[:12]), sum(counts), most_ms)

    @property
    def offset_seconds(self) -> float:
        return self.fakes.lane("t").read.times.offset_ms / 1000

    @property
    def age_ms(self) -> int | None:
        lane, now = self.fakes.lane("t"), self.fakes.clock.monotonic()
        return lag_ms(lane, self.fakes.clock.now_ms(), has_response=has_response(lane, now))


@pytest.fixture
def producers(fakes: MirroredFakes) -> Producers:
    """Return producers of a topic whose lane is caught up."""
    fakes.make_topic("t")
    made = Producers(fakes)
    fakes.start("t")
    made.write(0)
    fakes.run_to("t", 1)
    fakes.run(3)
    made.counted()
    return made


def freeze_target(fakes: MirroredFakes) -> None:
    for node in (1, 2):
        fakes.target.freeze(node)


def thaw_target(fakes: MirroredFakes) -> None:
    for node in (1, 2):
        fakes.target.thaw(node)


@pytest.mark.parametrize(
    ("offset_ms", "told"),
    [(0, 0.0), (-800, 0.0), (800, 0.0), (-MINUTE_MS, -60.0), (MINUTE_MS, 60.0), (-3 * DAY_MS, -259_200.0)],
)
def test_a_caught_up_lane_is_in_time_whatever_the_clock(
    producers: Producers, offset_ms: int, told: float
) -> None:
    producers.run(20, offset_ms)
    assert producers.counted()[:2] == (20, 20)
    assert producers.offset_seconds == pytest.approx(told, abs=2)
    assert bool(producers.offset_seconds) == bool(told)
    assert producers.age_ms == 0


@pytest.mark.parametrize("offset_ms", [-MINUTE_MS, 0, MINUTE_MS, 30 * MINUTE_MS])
def test_real_lateness_is_seen_whatever_the_clock(producers: Producers, offset_ms: int) -> None:
    fakes = producers.fakes
    producers.run(10, offset_ms)
    producers.counted()
    freeze_target(fakes)
    producers.run(30, offset_ms)
    assert 27_000 <= (producers.age_ms or 0) <= 32_500
    thaw_target(fakes)
    fakes.run_to("t", producers.written)
    counted = producers.counted()
    assert counted.total == 30
    assert counted.soon <= 5
    assert 16_384 <= counted.most_ms <= 65_536
    fakes.run(5)
    assert producers.age_ms == 0


def test_a_source_that_is_away_does_not_hide_the_lateness_of_a_clock_ahead(producers: Producers) -> None:
    """Nothing bounds the append time of records that no response has announced."""
    fakes = producers.fakes
    producers.run(10, MINUTE_MS)
    producers.counted()
    for node in (1, 2):
        fakes.source.freeze(node)
    began = producers.written
    for _ in range(30):
        producers.write(MINUTE_MS)
        fakes.clock.advance(1)
    for node in (1, 2):
        fakes.source.thaw(node)
    fakes.run_to("t", producers.written)
    counted = producers.counted()
    assert counted.total == producers.written - began
    assert counted.most_ms >= 16_384


def test_one_right_producer_does_not_hide_one_that_is_behind(producers: Producers) -> None:
    producers.run(20, 0, -MINUTE_MS, 0)
    assert producers.counted()[:2] == (60, 60)
    assert producers.offset_seconds == pytest.approx(-60, abs=2)
    freeze_target(producers.fakes)
    producers.run(30, 0, -MINUTE_MS)
    thaw_target(producers.fakes)
    producers.fakes.run_to("t", producers.written)
    counted = producers.counted()
    assert counted.total == 60
    assert counted.soon <= 10
    assert counted.most_ms <= 65_536


def test_append_times_are_right_whatever_producers_send(producers: Producers) -> None:
    fakes = producers.fakes
    for _ in range(10):
        now_ms = fakes.clock.now_ms()
        data = batches.build([(now_ms - DAY_MS, b"key", b"0", [])])
        fakes.source.append("t", batches.restamped(data, attributes=APPEND_TIME, max_timestamp=now_ms))
        fakes.run(1)
    assert producers.counted()[:2] == (10, 10)
    assert producers.offset_seconds == 0


def test_records_without_timestamps_have_no_latency(producers: Producers) -> None:
    producers.run(10, None)
    assert producers.counted().total == 0
    assert producers.offset_seconds == 0
    producers.run(5, -MINUTE_MS, None)
    assert producers.counted()[:2] == (5, 5)


def test_a_backlog_of_unknown_age_counts_by_its_timestamps(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    made = Producers(fakes)
    for _ in range(10):
        made.write(-MINUTE_MS)
    fakes.start("t")
    fakes.run_to("t", 10)
    counted = made.counted()
    assert (counted.soon, counted.total) == (0, 10)
    assert made.offset_seconds == 0


def test_a_sparse_topic_with_a_clock_behind_is_in_time(producers: Producers) -> None:
    """The fetch session omits the partition from responses while nothing arrives."""
    for _ in range(2):
        producers.fakes.run(40)
        producers.write(-MINUTE_MS)
        producers.fakes.run(2)
    assert producers.counted()[:2] == (2, 2)
    assert producers.offset_seconds == pytest.approx(-60, abs=2)
