"""Test the report of the quota that holds a lane back, its own or a broker's; in virtual time."""

from __future__ import annotations

import os
import re

import pytest
from structlog.typing import EventDict

from headrace.copy.worker_reports import CopyReports
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import LaneHeldBack, LanePaused, QuotaOwner
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.worker.protocol import CopySums
from tests.fakes.broker.faults import Delay, HandledRequest, Throttle
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
KIB = 1024
SOON_SECONDS = 15
"""Limit for the report of a quota, and for the report of its end."""


def hold_reason(fakes: MirroredFakes, number: int = 0) -> str:
    """Return the last reported reason for which a quota holds the lane back, empty for none."""
    key = fakes.lane("t", number).key
    return next(
        (one.reason for one in reversed(fakes.events) if isinstance(one, LaneHeldBack) and one.key == key), ""
    )


def owner(fakes: MirroredFakes, number: int = 0) -> tuple[QuotaOwner, int | None] | None:
    """Return the owner of that quota and the throttling broker; check the share of time in the reason."""
    key = fakes.lane("t", number).key
    events = [one for one in fakes.events if isinstance(one, LaneHeldBack) and one.key == key]
    assert all((one.hold is None) == (not one.reason) for one in events)
    hold = events[-1].hold
    if hold is None:
        return None
    assert f" {hold.share:.0%} of the time" in events[-1].reason
    return hold.owner, hold.broker


def write(fakes: MirroredFakes, batches: int, number: int = 0) -> None:
    """Write batches of 10 KiB that do not compress."""
    for _ in range(batches):
        fakes.source.write("t", [(fakes.clock.now_ms(), b"k", os.urandom(10 * KIB), [])], number)


def test_the_quota_of_a_datastream_is_named_while_its_lanes_wait_for_it(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 2)
    for number in range(2):
        write(fakes, 80, number)
    fakes.start("t", 2, policy=CopyPolicy(bytes_per_second=40_000))
    began = fakes.clock.monotonic()
    fakes.run_until(lambda: hold_reason(fakes, 0) and hold_reason(fakes, 1), "both lanes are reported")
    assert fakes.clock.monotonic() - began < SOON_SECONDS
    assert re.search(r"\bdatastream\b.* 40 kB/s\b", hold_reason(fakes))
    assert owner(fakes) == (QuotaOwner.DATASTREAM, None)
    assert not fakes.lane("t").observed.stalled_by
    assert fakes.lane("t").pause is None
    for number in range(2):
        fakes.run_to("t", 80, number)
    done = fakes.clock.monotonic()
    events = [one for one in fakes.events if isinstance(one, LaneHeldBack)]
    assert len(events) < 10, "not repeated at every check"
    fakes.run_until(lambda: not hold_reason(fakes, 0) and not hold_reason(fakes, 1), "the report ends")
    assert fakes.clock.monotonic() - done < SOON_SECONDS
    assert owner(fakes) is None
    assert not fakes.engine.take_throttled()


def test_lanes_that_a_quota_keeps_behind_are_read_as_such(fakes: MirroredFakes) -> None:
    """The memory and connections of the live tier are reserved for up-to-date lanes."""
    fakes.make_topic("t", 6)
    for number in range(6):
        write(fakes, 80, number)
    fakes.start("t", 6, policy=CopyPolicy(bytes_per_second=40_000))
    fakes.run(30)
    for number in range(6):
        lane = fakes.lane("t", number)
        assert lane.checkpoint < 80
        assert not lane.read.is_live, number
    group = fakes.lane("t").key.group
    fakes.engine.share_quotas({group: 100_000_000.0})
    fakes.run(10)
    assert all(fakes.lane("t", number).read.is_live for number in range(6))
    fakes.engine.share_quotas({group: 40_000.0})
    write(fakes, 1)
    fakes.run(1)
    write(fakes, 80)
    fakes.run(5)
    assert not fakes.lane("t").read.is_live, "it has fallen behind"


def test_a_lane_below_its_quota_says_nothing(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.start("t", policy=CopyPolicy(bytes_per_second=40_000))
    for _ in range(30):
        write(fakes, 1)
        fakes.run(1)
    assert not [one for one in fakes.events if isinstance(one, LaneHeldBack)]


def test_a_quota_changes_while_lanes_run(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write(fakes, 200)
    fakes.start("t", policy=CopyPolicy(bytes_per_second=1_000))
    lane = fakes.lane("t")
    group = lane.key.group
    fakes.run(20)
    identity, generation = lane.ownership.identity, lane.generation
    assert identity is not None
    assert lane.checkpoint < 10
    fakes.engine.share_quotas({group: 100_000_000.0})
    began = fakes.clock.monotonic()
    fakes.run_to("t", 200)
    assert fakes.clock.monotonic() - began < SOON_SECONDS, "the debt of the former quota is cancelled"
    fakes.engine.share_quotas({group: 20_000.0, GroupName("elsewhere"): 1.0})
    write(fakes, 100)
    fakes.run_until(lambda: "20 kB/s here" in hold_reason(fakes), "the new quota holds it back")
    fakes.engine.share_quotas({GroupName("elsewhere"): 1.0})
    began = fakes.clock.monotonic()
    fakes.run_to("t", 300)
    assert fakes.clock.monotonic() - began < SOON_SECONDS, "the quota no longer applies"
    assert fakes.lane("t") is lane
    assert (lane.ownership.identity, lane.generation) == (identity, generation)


def test_a_quota_comes_to_lanes_that_had_none(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write(fakes, 10)
    fakes.start("t")
    fakes.run_to("t", 10)
    fakes.engine.share_quotas({fakes.lane("t").key.group: 20_000.0})
    write(fakes, 60)
    fakes.run_until(lambda: hold_reason(fakes), "the quota holds the lane back")
    assert "20 kB/s here" in hold_reason(fakes)


def test_how_far_a_lane_that_waits_for_its_quota_is_behind_is_known(fakes: MirroredFakes) -> None:
    """The lane fetches nothing meanwhile, so the end of its partition takes a separate request."""
    fakes.make_topic("t")
    fakes.start("t", policy=CopyPolicy(bytes_per_second=2_000))
    fakes.run(2)
    write(fakes, 3)
    lane = fakes.lane("t")
    fakes.run_until(
        lambda: lane.read.waits and lane.read.position == 3, "the lane has read everything and waits"
    )
    write(fakes, 10)
    fakes.engine.metrics()
    fakes.run(1)
    assert (lane.read.waits, lane.read.position, lane.read.high_watermark) == (True, 3, 13)
    fakes.engine.metrics()
    assert lane.observed.measured[0] is not None


def test_how_far_a_lane_is_behind_is_known_while_a_broker_of_the_source_throttles(
    fakes: MirroredFakes,
) -> None:
    """Throttled responses to fetches are empty and late; the end of the partition takes another request."""
    fakes.make_topic("t")
    fakes.start("t")
    write(fakes, 3)
    lane = fakes.lane("t")
    fakes.run_to("t", 3)
    fakes.source.faults.plant(FETCH, Throttle(60_000), times=None)
    fakes.run(2)
    write(fakes, 10)
    fakes.run(20)
    assert not lane.read.waits
    assert (lane.read.position, lane.read.high_watermark) == (3, 3), "no fetch tells it"
    for _ in range(3):
        fakes.engine.metrics()
        fakes.run(5)
    (metric,) = fakes.engine.metrics()
    assert metric.lag_records == 10
    assert metric.lag_ms is not None
    assert metric.lag_ms > 10_000
    fakes.source.faults.clear()
    fakes.run_to("t", 13)
    fakes.engine.metrics()
    assert lane.observed.measured[0] == 0


def test_a_quota_for_reading_is_named_while_brokers_throttle(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 2)
    fakes.start("t", 2)
    fakes.run(5)
    fakes.source.faults.plant(FETCH, Throttle(2_000), times=None, broker=1)
    leaders = [fakes.source.partition("t", number).leader for number in range(2)]
    held, free = leaders.index(1), leaders.index(2)
    began = fakes.clock.monotonic()
    fakes.run_until(lambda: hold_reason(fakes, held), "it is reported")
    assert fakes.clock.monotonic() - began < SOON_SECONDS
    assert re.search(r"\bsource\b.*\breading\b", hold_reason(fakes, held))
    assert owner(fakes, held) == (QuotaOwner.SOURCE, 1)
    fakes.run(20)
    assert not hold_reason(fakes, free), "it is fetched from another broker"
    assert fakes.lane("t", held).pause is None
    assert not fakes.lane("t", held).observed.stalled_by
    (cluster, seconds), *others = fakes.engine.take_throttled().items()
    assert (cluster, others) == (ClusterRef("source"), [])
    assert 0.5 < seconds / (fakes.clock.monotonic() - began) < 1
    fakes.source.faults.clear()
    fakes.run_until(lambda: not hold_reason(fakes, held), "the report ends")
    fakes.engine.take_throttled()
    fakes.run(10)
    assert not fakes.engine.take_throttled()


@pytest.mark.parametrize("earlier", [5.0, 6.0, 7.5, 9.0])
def test_a_broker_that_throttles_is_named_before_records_are_late(
    fakes: MirroredFakes, earlier: float
) -> None:
    """The first late records open an incident, whose alert needs the cause."""
    fakes.make_topic("t")
    write(fakes, 2)
    fakes.start("t")
    fakes.run(earlier)
    fakes.target.faults.plant(PRODUCE, Throttle(20_000), times=None)
    write(fakes, 1)
    began = fakes.clock.monotonic()
    fakes.run_until(lambda: fakes.target.faults.taken, "the broker throttles")
    write(fakes, 1)
    fakes.run_until(lambda: hold_reason(fakes), "it is reported")
    assert fakes.clock.monotonic() - began < 3
    assert owner(fakes) == (QuotaOwner.DESTINATION, fakes.target.partition("t", 0).leader)


def test_a_destination_that_throttles_is_named_and_does_not_count_as_silent(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write(fakes, 2)
    fakes.start("t")
    fakes.run_to("t", 2)
    lane = fakes.lane("t")
    topic = fakes.target.topics["t"].identity

    def concerns(asked: HandledRequest) -> bool:
        return topic in [one.topic_id for one in asked.message.topic_data]

    fakes.target.faults.plant(PRODUCE, Throttle(20_000), fits=concerns)
    fakes.target.faults.plant(PRODUCE, Delay(18), times=None, fits=concerns)
    write(fakes, 40)
    fakes.run_until(lambda: _oldest(lane, fakes) > 8, "the batch sent before the throttling waits")
    assert not lane.observed.stalled_by, "the broker does not read from a throttled connection"
    fakes.run_until(lambda: hold_reason(fakes), "it is reported")
    assert re.search(r"\bdestination\b.*\bwriting\b", hold_reason(fakes))
    assert owner(fakes) == (QuotaOwner.DESTINATION, fakes.target.partition("t", 0).leader)
    assert fakes.engine.take_throttled()[ClusterRef("destination")] > 5
    fakes.target.faults.clear()
    fakes.run_to("t", 42)
    fakes.run_until(lambda: not hold_reason(fakes), "the report ends")
    assert not fakes.pauses(lane.key)


def test_a_checkpoint_sent_while_its_connection_is_throttled_does_not_count_as_unanswered(
    fakes: MirroredFakes,
) -> None:
    """The broker reads it only after the throttle time."""
    fakes.make_topic("t")
    topic = fakes.target.topics["t"].identity

    def is_checkpoint(asked: HandledRequest) -> bool:
        return topic not in [one.topic_id for one in asked.message.topic_data]

    fakes.target.faults.plant(PRODUCE, Throttle(20_000), fits=is_checkpoint)
    fakes.target.faults.plant(PRODUCE, Delay(18), fits=is_checkpoint)
    write(fakes, 2)
    fakes.start("t")
    fakes.run_to("t", 2)
    for _ in range(30):
        write(fakes, 1)
        fakes.run(1.0)
        assert not fakes.context.silent_clusters(fakes.clock.monotonic() - 5)
    assert fakes.target.faults.taken == 2


def _oldest(lane: Lane, fakes: MirroredFakes) -> float:
    """Return for how many seconds the oldest batch has been in flight."""
    now = fakes.clock.monotonic()
    sent = [one.sent_at for one in lane.queue.sent if isinstance(one, OutBatch) and one.outstanding]
    return now - min(sent, default=now)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_quota_that_empties_answers_does_not_disturb_the_look_for_what_a_killed_owner_wrote(
    fakes: MirroredFakes, logged: list[EventDict], side: str
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.start("t")
    fakes.run_until(lambda: len(fakes.copied("t")) == 5, "all records are copied")
    throttled = fakes.source if side == "source" else fakes.target
    throttled.faults.plant(FETCH, Throttle(1_500), times=6)
    fakes.restart("t")
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 5, "all records are found or copied")
    assert throttled.faults.taken
    (compared,) = [one for one in logged if one["event"] == "destination compared"]
    assert (compared["offsets"], compared["position"]) == (5, 5)
    assert not any(isinstance(one, LanePaused) for one in fakes.events)
    assert "other partitions" not in str(logged)
    assert not any(one["event"] == "fetch failed" for one in logged)
    assert fakes.numbers("t") == [0, 1, 2, 3, 4]


def test_an_identity_that_a_broker_puts_off_by_its_quota_is_not_overdue(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", 8)
    fakes.target.faults.plant(INIT_PRODUCER_ID, Throttle(4_000), times=None)
    fakes.start("t", 8)
    lanes = [fakes.lane("t", number) for number in range(8)]
    longest = 0.0
    for number in range(8):
        write(fakes, 1, number)
        fakes.run(0.3)
    while not all(lane.ownership.identity for lane in lanes):
        fakes.run(0.2)
        fakes.engine.metrics()
        assert not fakes.engine.unanswered()
        now = fakes.clock.monotonic()
        longest = max(longest, *(now - lane.ownership.claimed_at for lane in lanes))
    assert longest > 2, "some lanes have waited"


def test_a_copy_adds_up_for_how_long_the_brokers_quota_of_each_cluster_has_slowed_it(
    fakes: MirroredFakes,
) -> None:
    fakes.make_topic("t")
    write(fakes, 5)
    fakes.source.faults.plant(FETCH, Throttle(2_000), times=2)
    reports = CopyReports(fakes.engine, fakes.clock)
    fakes.start("t")
    fakes.run(1.5)
    early = _throttled(reports, fakes)
    fakes.run(10)
    assert 0 < early["source"] < _throttled(reports, fakes)["source"] <= 4.1
    assert _throttled(reports, fakes).keys() == {"source"}


def _throttled(reports: CopyReports, fakes: MirroredFakes) -> dict[str, float]:
    fakes.run(1)
    (sums,) = [one for one in reports.due(fakes.clock.monotonic()) if isinstance(one, CopySums)]
    return {str(cluster): seconds for cluster, seconds in sums.throttled}
