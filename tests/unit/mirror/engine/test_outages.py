"""Test outages: clusters that fail, recover, or lack replicas; in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from structlog.typing import EventDict

from mirror.model.datastreams.lanes import LaneKey, LanePaused, LaneStopped, PauseCause
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from mirror.protocol.control.cluster import Endpoint
from tests.fakes.broker.faults import Code, Delay, Drop, Gate, HandledRequest, Hold
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, LIST_OFFSETS, METADATA = 0, 2, 3
UNKNOWN_TOPIC, MESSAGE_TOO_LARGE, NOT_AUTHORIZED = 3, 10, 29
EFFECTIVELY_ONCE = CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE)
EXACTLY_ONCE = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE)
AT_LEAST_ONCE = CopyPolicy(guarantee=Guarantee.AT_LEAST_ONCE)
PROGRESS = "headrace-progress"


def copying(fakes: MirroredFakes, partitions: int = 2, policy: CopyPolicy = EFFECTIVELY_ONCE) -> None:
    """Start lanes of topic t and run until each has copied 10 records."""
    fakes.make_topic("t", partitions)
    for number in range(partitions):
        fakes.write("t", 0, 10, number)
    fakes.start("t", partitions, policy=policy)
    for number in range(partitions):
        fakes.run_to("t", 10, number)


def test_a_broker_that_knows_no_topics_when_it_is_back_delays_no_lane_by_the_length_of_its_outage(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(options={"probe_first_seconds": 1.0, "probe_longest_seconds": 60.0})
    copying(fakes)
    fakes.target.faults.plant(PRODUCE, Hold(Gate()), times=None)
    for number in range(2):
        fakes.write("t", 10, 10, number)
    fakes.run(0.2)
    for node in (1, 2):
        fakes.target.take_down(node)
    fakes.run(300)
    fakes.target.faults.clear()
    fakes.target.faults.plant(METADATA, Code(UNKNOWN_TOPIC, "t"), times=3)
    for node in (1, 2):
        fakes.target.bring_up(node)
    back = fakes.clock.monotonic()
    for number in range(2):
        fakes.run_to("t", 20, number)
    assert fakes.target.faults.is_spent
    assert fakes.clock.monotonic() - back < 10
    fakes.check_contents("t", 2)


def test_a_partition_that_is_not_replicated_says_why_and_delays_the_others_once(fakes: MirroredFakes) -> None:
    copying(fakes, 12)
    slow, others = fakes.target.log("t", 0), range(1, 12)
    slow.is_replicated = False
    fakes.write("t", 10, 10, 0)
    began = fakes.clock.monotonic()
    for first in range(10, 60, 10):
        for number in others:
            fakes.write("t", first, 10, number)
        for number in others:
            fakes.run_to("t", first + 10, number)
    assert fakes.clock.monotonic() - began < 6, "delayed by one request at most"
    fakes.run_until(lambda: fakes.lane("t", 0).observed.stalled_by, "the cause of its wait is reported")
    assert fakes.clock.monotonic() - began < 15
    assert re.search(
        r"\bt-0\b.*\bdestination: REQUEST_TIMED_OUT \(7\).* 2\d{3}-", fakes.lane("t", 0).observed.stalled_by
    )
    assert not any(fakes.lane("t", number).observed.stalled_by for number in others)
    slow.replicate()
    fakes.run_to("t", 20, 0)
    assert not fakes.lane("t", 0).queue.is_slow
    fakes.run_until(lambda: not fakes.lane("t", 0).observed.stalled_by, "it no longer waits")
    for number in others:
        assert fakes.numbers("t", number) == list(range(60))
    assert fakes.numbers("t") == list(range(20))


def test_progress_that_is_not_replicated_holds_up_no_lane_that_starts(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.make_topic("u", 4)
    for number, partition in enumerate(fakes.target.topics[PROGRESS].partitions):
        fakes.target.move_leader(PROGRESS, number, 1)
        partition.log.is_replicated = False
    for number in range(2):
        fakes.write("t", 10, 10, number)
    fakes.run(1)
    began = fakes.clock.monotonic()
    for number in range(4):
        fakes.write("u", 0, 10, number)
    fakes.start("u", 4, policy=AT_LEAST_ONCE)
    fakes.run_until(lambda: all(len(fakes.numbers("u", number)) == 10 for number in range(4)), "u is copied")
    assert fakes.clock.monotonic() - began < 3


def test_a_broker_that_closes_the_connection_on_each_batch_is_not_asked_without_a_pause(
    fakes: MirroredFakes,
) -> None:
    copying(fakes, 1)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None)
    fakes.write("t", 10, 10)
    fakes.run(10)
    assert 1 < fakes.target.faults.taken < 50
    fakes.target.faults.clear()
    fakes.run_to("t", 20)
    fakes.check("t")


def test_an_end_of_the_source_that_is_not_known_is_not_the_end_of_an_empty_source(
    fakes: MirroredFakes,
) -> None:
    copying(fakes, 1)
    gate = Gate()
    fakes.target.faults.plant(PRODUCE, Hold(gate, applied=True), times=None)
    fakes.write("t", 10, 10)
    fakes.run_until(lambda: fakes.target.log("t").end == 20, "the destination has the records")
    fakes.crash()
    gate.open()
    fakes.target.faults.clear()
    fakes.new_engine()
    fakes.source.faults.plant(LIST_OFFSETS, Code(NOT_AUTHORIZED, "t"), times=None)
    fakes.start("t", policy=EFFECTIVELY_ONCE)
    assert re.search(r"\bend offset\b.*\bt-0\b", fakes.run_until_paused("t"))
    fakes.source.faults.clear()
    fakes.run_to("t", 20)
    fakes.check("t")


def test_a_progress_record_that_is_refused_keeps_back_that_of_no_other_lane(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 5)
    for number in range(5):
        fakes.write("t", 0, 10, number)
    fakes.target.faults.plant(
        PRODUCE,
        Code(MESSAGE_TOO_LARGE, PROGRESS),
        times=None,
        fits=lambda asked: any(
            b"g-t/t/2" in bytes(one.records)
            for topic in asked.message.topic_data
            for one in topic.partition_data
        ),
    )
    fakes.start("t", 5, policy=AT_LEAST_ONCE)
    for number in (0, 1, 3, 4):
        fakes.run_to("t", 10, number)
    assert "MESSAGE_TOO_LARGE" in fakes.run_until_paused("t", 2)
    assert not any(fakes.pauses(fakes.lane("t", number).key) for number in (0, 1, 3, 4))
    fakes.target.faults.clear()
    fakes.run_to("t", 10, 2)
    fakes.stop()
    fakes.new_engine()
    fakes.start("t", 5, policy=AT_LEAST_ONCE)
    for number in range(5):
        fakes.run_to("t", 10, number)
    fakes.check_contents("t", 5)


@pytest.mark.parametrize("policy", [AT_LEAST_ONCE, EFFECTIVELY_ONCE, EXACTLY_ONCE])
def test_a_lane_without_new_records_is_reported_as_copying_after_an_outage_in_which_it_restarted(
    fakes: MirroredFakes, policy: CopyPolicy
) -> None:
    copying(fakes, 2, policy)
    fakes.target.faults.plant(PRODUCE, Hold(Gate()), times=None)
    for number in range(2):
        fakes.write("t", 10, 10, number)
    fakes.run(0.2)
    for node in (1, 2):
        fakes.target.take_down(node)
    fakes.run_until(lambda: len(last_paused(fakes)) == 2, "the cause of their wait is reported")
    for node in (1, 2):
        fakes.source.take_down(node)
    fakes.target.faults.clear()
    for node in (1, 2):
        fakes.target.bring_up(node)
    fakes.run(4)
    for node in (1, 2):
        fakes.source.bring_up(node)
    for number in range(2):
        fakes.run_to("t", 20, number)
    fakes.run_until(lambda: not last_paused(fakes), "they are reported as copying")
    assert not any(fakes.lane("t", number).observed.stalled_by for number in range(2))


@pytest.mark.parametrize("policy", [AT_LEAST_ONCE, EFFECTIVELY_ONCE, EXACTLY_ONCE])
def test_a_lane_that_has_read_all_reads_again_what_it_let_go(
    fakes: MirroredFakes, policy: CopyPolicy
) -> None:
    read_while_progress_is_late(fakes, policy, end_offset=300)
    fakes.run_until(lambda: any(isinstance(one, LaneStopped) for one in fakes.events), "the lane ends")
    assert fakes.numbers("t") == list(range(300))


def test_new_history_of_the_source_begins_behind_what_a_lane_had_let_go(fakes: MirroredFakes) -> None:
    policy = CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE, on_loss=OnLoss.CONTINUE)
    read_while_progress_is_late(fakes, policy)
    fakes.source.elect_uncleanly("t", 0, 2, 200)
    fakes.write("t", 1000, 10)
    fakes.run_to("t", 210)
    assert fakes.numbers("t") == [*range(200), *range(1000, 1010)]


def test_a_lane_that_restarts_while_it_waits_for_its_id_reads_again_what_it_let_go(
    fakes: MirroredFakes,
) -> None:
    policy = CopyPolicy(guarantee=Guarantee.EFFECTIVELY_ONCE, on_loss=OnLoss.CONTINUE)
    read_while_progress_is_late(fakes, policy)
    fakes.source.recreate_topic("t")
    fakes.source.server.changed()
    fakes.write("t", 1000, 10)
    fakes.run_to("t", 10)
    assert fakes.numbers("t") == [*range(1000, 1010)]


def read_while_progress_is_late(fakes: MirroredFakes, policy: CopyPolicy, **fields: Any) -> None:
    """Start a lane and run until it has read 300 records that it cannot send yet.

    Its progress is stored 25 s late, which is long enough for the lane to drop the records.
    """
    fakes.make_topic("t")
    for first in range(0, 300, 10):
        fakes.write("t", first, 10)
    fakes.target.faults.plant(PRODUCE, Delay(25.0), fits=lambda asked: not has_records(asked))
    fakes.start("t", policy=policy, **fields)
    fakes.run_until(lambda: fakes.lane("t").read.position == 300, "all records are read")


def has_records(asked: HandledRequest) -> bool:
    """Return whether a produce request has records of `write`, not progress."""
    parts = (part for topic in asked.message.topic_data for part in topic.partition_data)
    return any(b"key" in bytes(part.records) for part in parts)


def last_paused(fakes: MirroredFakes) -> set[LaneKey]:
    """Return the lanes whose last event is a pause."""
    last = {event.key: event for event in fakes.events}
    return {key for key, event in last.items() if isinstance(event, LanePaused)}


def causes(fakes: MirroredFakes) -> set[PauseCause]:
    return {event.cause for event in fakes.events if isinstance(event, LanePaused)}


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_source_is_not_away_for_lanes_that_wait_for_the_destination(
    fakes: MirroredFakes, *, is_frozen: bool
) -> None:
    """Idle lanes, lanes with records, and lanes that start: they do not fetch, so no response is missing."""
    copying(fakes, 4)
    fakes.make_topic("u", 2)
    target = fakes.target
    stop, begin = (target.freeze, target.thaw) if is_frozen else (target.take_down, target.bring_up)
    for node in (1, 2):
        stop(node)
    fakes.write("t", 10, 10, 0)
    fakes.start("u", 2)
    fakes.run(200)
    assert causes(fakes) <= {PauseCause.DESTINATION_AWAY, PauseCause.OTHER}
    assert PauseCause.DESTINATION_AWAY in causes(fakes)
    for node in (1, 2):
        begin(node)
    fakes.run_to("t", 20, 0)


def test_an_idle_lane_whose_destination_broker_is_frozen_waits_for_the_destination(
    fakes: MirroredFakes,
) -> None:
    copying(fakes, 2)
    fakes.target.freeze(1)
    for number in range(2):
        fakes.write("t", 10, 10, number)
    fakes.run(100)
    assert causes(fakes) == {PauseCause.DESTINATION_AWAY}
    fakes.target.thaw(1)
    for number in range(2):
        fakes.run_to("t", 20, number)
    fakes.run_until(lambda: not any(fakes.lane("t", n).observed.stalled_by for n in range(2)), "it is over")


def test_a_loss_that_needs_a_decision_stays_the_reason_while_a_cluster_is_away(fakes: MirroredFakes) -> None:
    copying(fakes, 1, CopyPolicy(on_loss=OnLoss.HALT))
    for node in (1, 2):
        fakes.target.take_down(node)
    fakes.run(5)
    fakes.write("t", 10, 10)
    fakes.source.log("t").delete_before(15)
    for node in (1, 2):
        fakes.target.bring_up(node)
    fakes.run_until(lambda: _is_lost(fakes), "the loss is found")
    began = len(fakes.events)
    for cluster in (fakes.source, fakes.target):
        for node in (1, 2):
            cluster.take_down(node)
        fakes.run(60)
        for node in (1, 2):
            cluster.bring_up(node)
        fakes.run(20)
    later = [event for event in fakes.events[began:] if isinstance(event, LanePaused)]
    assert {event.cause for event in later} <= {PauseCause.TRUNCATED}
    assert _is_lost(fakes)


def _is_lost(fakes: MirroredFakes) -> bool:
    pauses = [event for event in fakes.events if isinstance(event, LanePaused)]
    return bool(pauses) and pauses[-1].cause is PauseCause.TRUNCATED


def test_a_bootstrap_address_that_failed_while_all_brokers_were_away_is_no_outage_later(
    fakes: MirroredFakes,
) -> None:
    copying(fakes, 2)
    cluster = fakes.context.cluster(fakes.lane("t").spec.destination)
    cluster.directory.seeds[-9] = Endpoint("127.0.0.1", 1)
    for node in (1, 2):
        fakes.target.take_down(node)
    fakes.run(30)
    for node in (1, 2):
        fakes.target.bring_up(node)
    for number in range(2):
        fakes.write("t", 10, 10, number)
        fakes.run_to("t", 20, number)
    fakes.run(20)
    assert not fakes.context.silent_clusters(fakes.clock.monotonic() - 5)


@pytest.mark.parametrize(
    ("partitions", "is_frozen"),
    [(8, True), (8, False), pytest.param(64, True, marks=pytest.mark.deep)],
)
def test_an_outage_is_a_few_lines_however_many_partitions_wait(
    new_fakes: Callable[..., MirroredFakes],
    logged: list[EventDict],
    *,
    partitions: int,
    is_frozen: bool,
) -> None:
    fakes = new_fakes()
    copying(fakes, partitions)
    target = fakes.target
    stop, begin = (target.freeze, target.thaw) if is_frozen else (target.take_down, target.bring_up)
    for node in (1, 2):
        stop(node)
    for first in range(10, 30, 10):
        for number in range(partitions):
            fakes.write("t", first, 10, number)
        fakes.run(73)
    for node in (1, 2):
        begin(node)
    for number in range(partitions):
        fakes.run_to("t", 30, number)
    fakes.run(10)
    lines = [one for one in logged if one["log_level"] != "debug"]
    assert len(lines) < 20, lines
    assert any(one["event"] == "lanes wait" and one["lanes"] == partitions for one in lines), lines


def test_a_clock_that_is_set_back_delays_no_retry(fakes: MirroredFakes) -> None:
    copying(fakes, 1)
    fakes.target.faults.plant(PRODUCE, Code(MESSAGE_TOO_LARGE), times=None)
    fakes.write("t", 10, 1)
    fakes.run_until_paused("t")
    fakes.clock.set_back(3_600)
    fakes.target.faults.clear()
    began = fakes.clock.monotonic()
    fakes.run_to("t", 11)
    assert fakes.clock.monotonic() - began < 10
