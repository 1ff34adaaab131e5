"""Test the reported age of waiting records and the reported causes of waiting; in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from structlog.typing import EventDict

from mirror.model.datastreams.lanes import LanePaused, LaneStopped, PauseCause
from mirror.model.latency import latency_bucket
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.history import UNKNOWN_RETENTION, UNLIMITED, LanePosition, Retention
from mirror.replication.reports.measurements import has_response, lag_ms
from tests.fakes.broker import batches
from tests.fakes.broker.batches import Content
from tests.fakes.broker.faults import Delay
from tests.fakes.broker.mirrored import MirroredFakes

NewFakes = Callable[..., MirroredFakes]
HOUR_MS = 3_600_000
PRODUCE = 0
LARGE = b"x" * 5_000


def measured(fakes: MirroredFakes) -> tuple[MirrorMetric, LanePosition]:
    """Return the current metric and position of the only lane."""
    (metric,) = metrics = fakes.engine.metrics()
    (position,) = fakes.engine.positions(metrics)
    assert position is not None
    return metric, position


def age(fakes: MirroredFakes) -> int | None:
    lane = fakes.lane("t")
    return lag_ms(lane, fakes.clock.now_ms(), has_response=has_response(lane, fakes.clock.monotonic()))


def cause(fakes: MirroredFakes) -> PauseCause:
    """Return the cause of the last pause."""
    return [one.cause for one in fakes.events if isinstance(one, LanePaused)][-1]


def stamped(fakes: MirroredFakes, age_ms: int, value: bytes = b"0") -> list[Content]:
    return [(fakes.clock.now_ms() - age_ms, b"key", value, [])]


def copying(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t")
    fakes.run_to("t", 20)


def prepare(fakes: MirroredFakes, *, begun: bool) -> None:
    """Start a lane that copies, or only create its topic."""
    if begun:
        copying(fakes)
    else:
        fakes.make_topic("t")


def freeze(fakes: MirroredFakes, *, source: bool = False) -> None:
    for node in (1, 2):
        (fakes.source if source else fakes.target).freeze(node)


def test_a_lane_that_has_delivered_nothing_is_as_old_as_its_first_record(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("t", 1, 2)
    fakes.target.create_topic("t", 1, 2, max_message_bytes="1000")
    fakes.source.write("t", stamped(fakes, HOUR_MS, LARGE))
    fakes.start("t")
    fakes.run_until_paused("t")
    metric, position = measured(fakes)
    assert metric.lag_ms is not None
    assert HOUR_MS <= metric.lag_ms < HOUR_MS + 10_000
    assert (metric.lag_records, position.checkpoint, position.end) == (1, 0, 1)
    assert cause(fakes) is PauseCause.OTHER
    fakes.run(600)
    assert (age(fakes) or 0) >= HOUR_MS + 600_000, "it grows while the lane is paused"


def test_a_lane_that_is_stopped_and_started_between_two_fetches_hears_of_its_source(
    fakes: MirroredFakes,
) -> None:
    copying(fakes)
    fakes.run(3)
    key = fakes.lane("t").key
    fakes.engine.stop_lanes([key])
    fakes.run_until(lambda: any(isinstance(one, LaneStopped) for one in fakes.events), "the lane stops")
    fakes.start("t")
    fakes.run(5)
    metric, position = measured(fakes)
    assert (metric.lag_records, metric.lag_ms) == (0, 0)
    assert position[:3] == (20, 20, 20)


def test_positions_of_a_lane_in_time_are_withheld_until_one_is_different(fakes: MirroredFakes) -> None:
    copying(fakes)
    told: list[LanePosition | None] = []
    for records in (10, 10, 10, 10):
        if len(told) == 3:
            freeze(fakes)
        fakes.write("t", 20 + 10 * len(told), records)
        fakes.run(5)
        told += fakes.engine.positions(fakes.engine.metrics(), fakes.clock.monotonic())
    first, *between, last = told
    assert first is not None
    assert (first.checkpoint, first.withheld, first.is_watched) == (30, (), True)
    assert between == [None, None]
    assert last is not None
    assert [(one.checkpoint, one.end) for one in last.withheld] == [(40, 40), (50, 50)]
    assert (last.checkpoint, last.end) == (50, 60)


def test_what_an_open_transaction_hides_has_an_age_of_its_own(
    new_fakes: NewFakes, logged: list[EventDict]
) -> None:
    fakes = new_fakes(options={"hanging_transaction_seconds": 10.0})
    copying(fakes)
    end = fakes.source.write_in_transaction("t", fakes.records(20, 5))
    fakes.write("t", 25, 5)
    fakes.run(5)
    metric, position = measured(fakes)
    assert (metric.lag_records, metric.lag_ms) == (10, 0)
    assert position[:3] == (20, 20, 30)
    assert position.hidden_ms is None, "most transactions end sooner"
    fakes.run(5)
    metric, position = measured(fakes)
    assert metric.lag_ms == 0, "no readable record waits"
    assert 10_000 <= (position.hidden_ms or 0) <= 12_000
    fakes.run_until(lambda: fakes.lane("t").observed.held_by, "the transaction is reported")
    fakes.run(1)
    assert cause(fakes) is PauseCause.OPEN_TRANSACTION
    end(commit=True)
    fakes.run_to("t", 31)
    metric, position = measured(fakes)
    assert (metric.lag_records, metric.lag_ms, position.hidden_ms) == (0, 0, None)
    fakes.run(2)
    assert [one["lanes"] for one in logged if one["event"] == "lanes continue"] == [1]


@pytest.mark.deep
def test_a_record_in_a_sparse_topic_is_young(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.run(HOUR_MS / 1000)
    freeze(fakes)
    fakes.write("t", 20, 1)
    fakes.run(3)
    assert 2_000 <= (age(fakes) or 0) <= 4_000
    fakes.run(60)
    assert (age(fakes) or 0) >= 60_000


def test_a_compacted_end_of_the_source_does_not_wait(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    for first in range(0, 50, 10):
        fakes.write("t", first, 10)
    for offset in (10, 20, 30):
        fakes.source.log("t").compact(offset, None)
    fakes.start("t")
    fakes.run_to("t", 50)
    fakes.run_until(lambda: age(fakes) == 0, "no record waits")
    metric, position = measured(fakes)
    assert (metric.lag_records, metric.lag_ms) == (0, 0)
    assert position[:3] == (50, 50, 50)


@pytest.mark.parametrize(("skew_ms", "known"), [(HOUR_MS, 0), (500, 500), (-500, 0), (-HOUR_MS, 0)], ids=str)
def test_create_times_are_ages_unless_they_cannot_be(fakes: MirroredFakes, skew_ms: int, known: int) -> None:
    copying(fakes)
    freeze(fakes)
    fakes.source.write("t", stamped(fakes, skew_ms))
    fakes.run(0.4)
    found = age(fakes)
    assert found is not None
    assert known <= found + 1 <= known + 1_500


def test_append_times_are_those_of_the_broker_whatever_the_producer_says(fakes: MirroredFakes) -> None:
    copying(fakes)
    freeze(fakes)
    data = batches.build(stamped(fakes, -HOUR_MS))
    append_time = 1 << 3
    appended = batches.restamped(data, attributes=append_time, max_timestamp=fakes.clock.now_ms())
    fakes.source.append("t", appended)
    fakes.run(5)
    assert 4_000 <= (age(fakes) or 0) <= 6_000


@pytest.mark.parametrize("begun", [True, False], ids=["copying", "starting"])
def test_a_source_that_does_not_answer_is_no_lag_of_0_and_has_a_name(
    fakes: MirroredFakes, begun: bool
) -> None:
    prepare(fakes, begun=begun)
    freeze(fakes, source=True)
    if not begun:
        fakes.start("t")
    fakes.run(30)
    assert age(fakes) is None
    assert cause(fakes) is PauseCause.SOURCE_AWAY


@pytest.mark.parametrize("begun", [True, False], ids=["copying", "starting"])
def test_a_destination_that_does_not_answer_has_a_name(fakes: MirroredFakes, begun: bool) -> None:
    prepare(fakes, begun=begun)
    freeze(fakes)
    fakes.write("t", 20, 5)
    if not begun:
        fakes.start("t")
    fakes.run(60)
    assert cause(fakes) is PauseCause.DESTINATION_AWAY
    if begun:
        assert (age(fakes) or 0) >= 59_000, "waiting records grow older"


@pytest.mark.parametrize("begun", [True, False], ids=["copying", "starting"])
def test_batches_that_waited_and_were_merged_are_as_old_as_their_records(
    fakes: MirroredFakes, begun: bool
) -> None:
    prepare(fakes, begun=begun)
    fakes.target.faults.plant(PRODUCE, Delay(3_600), times=None)
    first = fakes.clock.now_ms()
    fakes.write("t", 20, 1)
    if not begun:
        fakes.start("t")
    for offset in range(1, 60):
        fakes.run(1)
        fakes.write("t", 20 + offset, 1)
        assert (age(fakes) or 0) >= fakes.clock.now_ms() - first - 1_000
    fakes.engine.metrics()
    fakes.target.faults.clear()
    fakes.run_to("t", 80 if begun else 60)
    metric, _ = measured(fakes)
    late = sum(metric.latency_counts[latency_bucket(32_000) + 1 :])
    assert 40 <= late < metric.records_copied == 60, "one record per second waited"


def test_a_partition_without_a_leader_is_a_source_that_is_away(fakes: MirroredFakes) -> None:
    copying(fakes)
    for node in (1, 2):
        fakes.source.take_down(node)
    fakes.run(30)
    assert cause(fakes) is PauseCause.SOURCE_AWAY


def test_records_that_are_gone_are_a_truncation(fakes: MirroredFakes) -> None:
    copying(fakes)
    freeze(fakes)
    fakes.write("t", 20, 50)
    fakes.run(1)
    fakes.crash()
    for node in (1, 2):
        fakes.target.thaw(node)
    fakes.source.log("t").delete_before(40)
    fakes.new_engine()
    fakes.start("t")
    assert re.search(r"\b20 to 39 of t-0\b", fakes.run_until_paused("t"))
    assert cause(fakes) is PauseCause.TRUNCATED


def test_another_topic_of_the_same_name_is_called_that(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5)
    fakes.run_until_paused("t")
    assert cause(fakes) is PauseCause.RECREATED


def test_a_pause_is_reported_again_after_a_restart(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5)
    reason = fakes.run_until_paused("t")
    fakes.run(3)
    fakes.events.clear()
    before = fakes.lane("t").pause
    assert before is not None
    fakes.restart("t")
    fakes.run(10)
    told = [one for one in fakes.events if isinstance(one, LanePaused)]
    assert [(one.reason, one.cause) for one in told] == [(reason, PauseCause.RECREATED)]
    after = fakes.lane("t").pause
    assert after is not None
    assert after.since_ms == before.since_ms
    assert after.attempt > before.attempt


def test_what_the_source_keeps_is_looked_up_for_a_lane_that_is_late(fakes: MirroredFakes) -> None:
    fakes.source.create_topic("t", 1, 2, **{"retention.ms": "120000", "retention.bytes": "5000"})
    fakes.target.create_topic("t", 1, 2)
    fakes.write("t", 0, 20)
    fakes.start("t")
    fakes.run_to("t", 20)
    assert measured(fakes)[1].retention == UNKNOWN_RETENTION
    freeze(fakes)
    fakes.write("t", 20, 5)
    fakes.run(20)
    assert measured(fakes)[1].retention == UNKNOWN_RETENTION, "its request has just been sent"
    fakes.run(5)
    position = measured(fakes)[1]
    assert position[:5] == (20, 25, 25, 0, Retention(120_000, 5_000))
    fakes.source.topics["t"].own["cleanup.policy"] = "compact"
    fakes.run(400)
    measured(fakes)
    fakes.run(5)
    assert measured(fakes)[1].retention == Retention(UNLIMITED, UNLIMITED), (
        "nothing is deleted by age or size"
    )
