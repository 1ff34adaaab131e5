"""Test checkpoints while the destination accepts records but delays or rejects progress."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.model.datastreams.lanes import LaneStopped
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Delay, Drop, HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE = 0
TIMED_OUT, NOT_AUTHORIZED = 7, 29
PROGRESS = "headrace-progress"
AT_LEAST_ONCE = CopyPolicy(guarantee=Guarantee.AT_LEAST_ONCE)
"""Policy under which a restart copies records without a stored checkpoint again."""


def copying(fakes: MirroredFakes, policy: CopyPolicy = AT_LEAST_ONCE, group: str = "") -> None:
    """Start a lane and run until it has copied 10 records."""
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    fakes.start("t", policy=policy, consumer_group=group)
    fakes.run_to("t", 10)


def having(content: bytes) -> Callable[[HandledRequest], bool]:
    """Return a predicate for produce requests whose records contain this content."""
    return lambda asked: any(
        content in bytes(part.records) for topic in asked.message.topic_data for part in topic.partition_data
    )


def test_progress_that_could_not_be_stored_is_stored_later_without_another_record(
    fakes: MirroredFakes,
) -> None:
    copying(fakes)
    refused = Code(NOT_AUTHORIZED, PROGRESS)
    fakes.target.faults.plant(PRODUCE, refused, times=2, fits=having(b'"next_offset":20'))
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "progress is refused")
    fakes.run(15)
    fakes.restart("t", policy=AT_LEAST_ONCE)
    fakes.write("t", 20, 10)
    fakes.run_to("t", 30)
    assert fakes.numbers("t") == list(range(30))


def test_what_is_acknowledged_while_progress_is_stored_is_in_the_next(fakes: MirroredFakes) -> None:
    copying(fakes)
    late = Delay(2.0, applied=True)
    fakes.target.faults.plant(PRODUCE, late, fits=having(b'"next_offset":20'))
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "a write of progress is pending")
    fakes.write("t", 20, 10)
    fakes.run(5)
    fakes.restart("t", policy=AT_LEAST_ONCE)
    fakes.write("t", 30, 10)
    fakes.run_to("t", 40)
    assert fakes.numbers("t") == list(range(40))


def test_a_consumer_group_shows_no_position_that_is_not_stored(fakes: MirroredFakes) -> None:
    copying(fakes, group="shown")
    late, refused = Delay(2.0, applied=True), Code(NOT_AUTHORIZED, PROGRESS)
    fakes.target.faults.plant(PRODUCE, late, fits=having(b'"next_offset":20'))
    fakes.target.faults.plant(PRODUCE, refused, times=None, fits=having(b'"next_offset":30'))
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.faults.taken == 1, "a write of progress is pending")
    fakes.write("t", 20, 10)
    fakes.run_until(lambda: fakes.target.faults.taken > 1, "more progress is refused")
    fakes.run(10)
    assert fakes.source.groups == {"shown": {("t", 0): 20}}


def test_a_lane_stops_at_once_also_after_an_outage_that_is_over(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(checkpoint_seconds=30.0)
    copying(fakes)
    refused = Code(NOT_AUTHORIZED, PROGRESS)
    fakes.target.faults.plant(PRODUCE, refused, fits=having(b'"next_offset":20'))
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "progress is refused")
    fakes.run_to("t", 20)
    began = fakes.clock.monotonic()
    fakes.engine.stop_lanes(tuple(fakes.engine.lanes.by_key))
    fakes.run_until(lambda: any(isinstance(one, LaneStopped) for one in fakes.events), "the lane stops")
    assert fakes.clock.monotonic() - began < 5


@pytest.mark.parametrize("lost", [Code(TIMED_OUT, "t", applied=True), Drop(applied=True)])
def test_a_lane_that_stops_with_a_refused_batch_whose_first_answer_was_lost_repeats_nothing(
    fakes: MirroredFakes, lost: Code | Drop
) -> None:
    policy, records = CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE), having(b"key")
    copying(fakes, policy)
    fakes.target.faults.plant(PRODUCE, lost, fits=records)
    fakes.target.faults.plant(PRODUCE, Code(NOT_AUTHORIZED, "t"), times=None, fits=records)
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.faults.taken > 1, "the batch is refused")
    assert fakes.numbers("t") == list(range(20))
    fakes.stop()
    fakes.target.faults.clear()
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.write("t", 20, 10)
    fakes.run_to("t", 30)
    fakes.check_contents("t")


def stored(fakes: MirroredFakes, offset: int) -> int:
    """Return the number of progress records with this checkpoint."""
    logs = [one.log for one in fakes.target.topics[PROGRESS].partitions]
    content = b'"next_offset":%d,' % offset
    return sum((one.value or b"").count(content) for log in logs for one in committed(log))


def test_a_lane_with_an_interval_of_its_own_stores_its_progress_more_often(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(checkpoint_seconds=30.0)
    for topic in ("t", "u"):
        fakes.make_topic(topic)
        fakes.write(topic, 0, 10)
        fakes.start(topic, policy=AT_LEAST_ONCE, checkpoint_seconds=0.1 if topic == "t" else 0.0)
    fakes.run_to("t", 10)
    fakes.run_to("u", 10)
    began = fakes.clock.monotonic()
    fakes.run(1.0)
    fakes.write("t", 10, 10)
    fakes.write("u", 10, 11)
    fakes.run_until(lambda: stored(fakes, 20), "the checkpoint of t is stored")
    assert (fakes.clock.monotonic() - began < 3.0, stored(fakes, 21)) == (True, 0)
    fakes.run(3.0)
    assert stored(fakes, 20) == 1, "an idle lane writes no progress"
    fakes.run_until(lambda: stored(fakes, 21), "the checkpoint of u is stored")


def test_early_checkpoints_of_a_lane_do_not_displace_those_of_others(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(checkpoint_seconds=2.0)
    for topic in ("t", "u"):
        fakes.make_topic(topic)
        fakes.start(topic, policy=AT_LEAST_ONCE, checkpoint_seconds=0.05 if topic == "t" else 0.0)
    fakes.write("u", 0, 1_000)
    slow = Delay(0.3, applied=True)
    fakes.target.faults.plant(PRODUCE, slow, times=None, fits=having(b'"next_offset"'))
    for number in range(100):
        fakes.write("t", number, 1)
        fakes.run(0.05)
    assert stored(fakes, 1_000)
    assert sum(stored(fakes, number) for number in range(1, 101)) > 8


def test_a_failing_destination_gets_no_early_checkpoints(new_fakes: Callable[..., MirroredFakes]) -> None:
    fakes = new_fakes(checkpoint_seconds=2.0)
    fakes.make_topic("t")
    fakes.start("t", policy=AT_LEAST_ONCE, checkpoint_seconds=0.05)
    fakes.write("t", 0, 10)
    fakes.run_to("t", 10)
    fakes.run(1.0)
    refused = Code(NOT_AUTHORIZED, PROGRESS)
    fakes.target.faults.plant(PRODUCE, refused, times=None, fits=having(b'"next_offset"'))
    for number in range(10, 210):
        fakes.write("t", number, 1)
        fakes.run(0.05)
    assert fakes.target.faults.taken < 8
    fakes.target.faults.clear()
    fakes.run_until(lambda: stored(fakes, 210), "the checkpoint is stored")
