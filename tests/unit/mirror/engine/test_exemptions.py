"""Test which lag and latency count against objectives if a lane starts with a backlog; in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.model.latency import latency_bucket
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.exemptions import LatencyExemption
from tests.fakes.broker.faults import Delay
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE = 0
LATE_MS = 2_000


def counted(fakes: MirroredFakes) -> Sequence[MirrorMetric]:
    metrics = fakes.engine.metrics()
    fakes.engine.positions(metrics)
    return fakes.engine.counted(metrics)


def late_of(metrics: Sequence[MirrorMetric]) -> int:
    return sum(sum(one.latency_counts[latency_bucket(LATE_MS) :]) for one in metrics)


def records_of(metrics: Sequence[MirrorMetric]) -> int:
    return sum(sum(one.latency_counts) for one in metrics)


def created(fakes: MirroredFakes) -> LatencyExemption:
    now = fakes.clock.now_ms()
    return LatencyExemption(now, grace_from_ms=now)


def test_history_that_a_lane_finds_counts_neither_as_late_nor_as_waiting(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    fakes.target.faults.plant(PRODUCE, Delay(3.0))
    fakes.start("t", exemption=created(fakes))
    fakes.run(2)
    (metric,) = counted(fakes)
    assert (metric.lag_records, metric.lag_ms) == (50, 0)
    fakes.run_to("t", 50)
    assert records_of(counted(fakes)) == 0
    assert fakes.lane("t").observed.totals is not None


def test_the_age_that_people_see_is_the_true_one(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    fakes.target.faults.plant(PRODUCE, Delay(3.0))
    fakes.start("t", exemption=created(fakes))
    fakes.run(2)
    (metric,) = fakes.engine.metrics()
    assert (metric.lag_ms or 0) >= 240_000


def test_records_count_again_when_the_lane_has_caught_up(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    fakes.start("t", exemption=created(fakes))
    fakes.run_to("t", 50)
    fakes.write("t", 50, 1)
    fakes.run_to("t", 51)
    counted(fakes)
    assert fakes.lane("t").read.grace is None
    fakes.write("t", 51, 7)
    fakes.clock.advance(5)
    fakes.run_to("t", 58)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 7


def test_a_restart_after_the_lane_has_caught_up_exempts_nothing(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    exemption = created(fakes)
    fakes.start("t", exemption=exemption)
    fakes.run_to("t", 50)
    fakes.write("t", 50, 1)
    fakes.run_to("t", 51)
    fakes.stop()
    fakes.write("t", 51, 9)
    fakes.clock.advance(60)
    fakes.restart("t", exemption=exemption)
    fakes.run_to("t", 60)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 9


def test_records_of_a_pause_are_exempt_and_records_that_were_late_before_are_not(
    fakes: MirroredFakes,
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.clock.advance(60)
    since_ms = fakes.clock.now_ms()
    fakes.clock.advance(10)
    fakes.write("t", 5, 20)
    fakes.clock.advance(30)
    until_ms = fakes.clock.now_ms()
    fakes.start("t", exemption=LatencyExemption(0, since_ms, until_ms, until_ms))
    fakes.run_to("t", 25)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 5


def test_a_creation_in_the_future_hides_nothing_that_is_produced_from_now_on(fakes: MirroredFakes) -> None:
    """An imported definition may have any creation time."""
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    future = fakes.clock.now_ms() + 10**9
    fakes.start("t", exemption=LatencyExemption(future, grace_from_ms=future))
    grace = fakes.lane("t").read.grace
    assert grace is not None
    now = fakes.clock.now_ms()
    grace.note(10, now)
    grace.note(10, now + 601_000)
    assert grace.counts(now + 1)
    assert not grace.counts(now - 1)
