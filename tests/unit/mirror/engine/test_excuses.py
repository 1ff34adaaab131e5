"""Test which lag and latency count against objectives if a lane starts with a backlog; in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.model.latency import latency_bucket
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.excuses import Excuse
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


def created(fakes: MirroredFakes) -> Excuse:
    now = fakes.clock.now_ms()
    return Excuse(now, patience_ms=now)


def test_history_that_a_lane_finds_counts_neither_as_late_nor_as_waiting(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    fakes.target.faults.plant(PRODUCE, Delay(3.0))
    fakes.start("t", excuse=created(fakes))
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
    fakes.start("t", excuse=created(fakes))
    fakes.run(2)
    (metric,) = fakes.engine.metrics()
    assert (metric.lag_ms or 0) >= 240_000


def test_records_count_again_when_the_lane_has_caught_up(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    fakes.start("t", excuse=created(fakes))
    fakes.run_to("t", 50)
    fakes.write("t", 50, 1)
    fakes.run_to("t", 51)
    counted(fakes)
    assert fakes.lane("t").read.excused is None
    fakes.write("t", 51, 7)
    fakes.clock.advance(5)
    fakes.run_to("t", 58)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 7


def test_a_deploy_after_the_lane_has_caught_up_excuses_nothing(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 50)
    fakes.clock.advance(240)
    excuse = created(fakes)
    fakes.start("t", excuse=excuse)
    fakes.run_to("t", 50)
    fakes.write("t", 50, 1)
    fakes.run_to("t", 51)
    fakes.stop()
    fakes.write("t", 51, 9)
    fakes.clock.advance(60)
    fakes.restart("t", excuse=excuse)
    fakes.run_to("t", 60)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 9


def test_what_was_produced_during_a_pause_is_excused_and_what_was_late_before_is_not(
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
    fakes.start("t", excuse=Excuse(0, since_ms, until_ms, until_ms))
    fakes.run_to("t", 25)
    found = counted(fakes)
    assert late_of(found) == records_of(found) == 5


def test_a_creation_in_the_future_hides_nothing_that_is_produced_from_now_on(fakes: MirroredFakes) -> None:
    """An imported definition may have any creation time."""
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    future = fakes.clock.now_ms() + 10**9
    fakes.start("t", excuse=Excuse(future, patience_ms=future))
    excused = fakes.lane("t").read.excused
    assert excused is not None
    now = fakes.clock.now_ms()
    excused.note(10, now)
    excused.note(10, now + 601_000)
    assert excused.counts(now + 1)
    assert not excused.counts(now - 1)
