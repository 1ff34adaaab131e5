"""Test that lanes closest to losing records catch up first if bandwidth is short; in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.model.datastreams.lanes import LaneHeldBack, QuotaOwner
from mirror.model.datastreams.policy import CopyPolicy
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.retained import RetainedTraffic, Stream

NewFakes = Callable[..., MirroredFakes]
KIB = 1024
MINUTES = 60.0
HURRIED = [Stream(f"hurried{number}", 16 * KIB, 120) for number in range(3)]
PATIENT = [Stream(f"patient{number}", 16 * KIB) for number in range(6)]


def copying(
    new_fakes: NewFakes,
    streams: list[Stream],
    budget: int,
    *,
    backlog_seconds: int = 90,
    deadline_first: bool = True,
) -> tuple[MirroredFakes, RetainedTraffic]:
    """Start all streams in one datastream with a quota of `budget` bytes per second."""
    traffic = RetainedTraffic(streams)
    fakes = new_fakes(script=traffic.run, options={"deadline_first": deadline_first})
    traffic.begin(fakes, backlog_seconds)
    for one in streams:
        fakes.start(one.name, group="g", policy=CopyPolicy(bytes_per_second=budget))
    return fakes, traffic


def held_back(fakes: MirroredFakes, name: str) -> set[QuotaOwner]:
    """Return the owners of all quotas reported to hold the lane back."""
    key = fakes.lane(name).key
    told = [one.hold for one in fakes.events if isinstance(one, LaneHeldBack) and one.key == key]
    return {hold.owner for hold in told if hold is not None}


@pytest.mark.deep
def test_who_would_lose_records_goes_first(new_fakes: NewFakes) -> None:
    budget = 16 * KIB * 6
    fakes, traffic = copying(new_fakes, [*HURRIED, *PATIENT], budget, deadline_first=False)
    fakes.run(2 * MINUTES)
    assert traffic.lost.keys() == {one.name for one in HURRIED}, "fair shares lose all of them"
    fakes, traffic = copying(new_fakes, [*HURRIED, *PATIENT], budget)
    fakes.run(2 * MINUTES)
    assert not traffic.lost
    assert QuotaOwner.OTHERS in set[QuotaOwner]().union(*(held_back(fakes, one.name) for one in PATIENT))
    assert all(fakes.lane(one.name).checkpoint > 8 for one in PATIENT), "no lane starves"
    fakes.engine.share_quotas({fakes.lane("patient0").key.group: 100_000_000.0})
    fakes.run(60)
    for one in (*HURRIED, *PATIENT):
        lane = fakes.lane(one.name)
        assert lane.read.is_live, one.name
        assert not any(bucket.for_catching_up for bucket in lane.read.buckets), "no lane yields any longer"


def test_lanes_that_yield_keep_yielding_when_quotas_are_shared_again(new_fakes: NewFakes) -> None:
    budget = 16 * KIB * 6
    streams = [*HURRIED, *PATIENT]
    fakes, _ = copying(new_fakes, streams, budget)

    def yielding() -> set[str]:
        lanes = {one.name: fakes.lane(one.name) for one in streams}
        return {
            name for name, lane in lanes.items() if any(each.for_catching_up for each in lane.read.buckets)
        }

    fakes.run_until(yielding, "lanes yield")
    before = yielding()
    group = fakes.lane("patient0").key.group
    for share in (budget / 2, budget):
        fakes.engine.share_quotas({group: share})
        assert yielding() == before
        assert all(
            share in [each.bytes_per_second for each in fakes.lane(one.name).read.buckets] for one in streams
        )
    fakes.engine.share_quotas({})
    assert yielding() == before


def test_where_not_all_can_be_saved_the_most_are(new_fakes: NewFakes) -> None:
    streams = [Stream(f"small{number}", 8 * KIB, 120) for number in range(6)]
    streams += [Stream(f"large{number}", 32 * KIB, 120) for number in range(3)]
    budget = 8 * KIB * 12
    fakes, traffic = copying(new_fakes, streams, budget)
    fakes.run(2 * MINUTES)
    assert not [name for name in traffic.lost if name.startswith("small")]
    assert len(traffic.lost) == 2, "the budget suffices for one large stream"


@pytest.mark.parametrize(
    "streams", [PATIENT, [*PATIENT, Stream("kept", 16 * KIB, 7_200)]], ids=["none", "far"]
)
def test_without_a_deadline_in_reach_nobody_gives_way(new_fakes: NewFakes, streams: list[Stream]) -> None:
    fakes, _ = copying(new_fakes, streams, 16 * KIB * 4)
    fakes.run(2 * MINUTES)
    assert not [reason for one in streams for reason in held_back(fakes, one.name) if "sooner" in reason]
    positions = [fakes.lane(one.name).checkpoint for one in streams]
    assert max(positions) < 2 * min(positions)
    assert not any(bucket.for_catching_up for one in streams for bucket in fakes.lane(one.name).read.buckets)


def test_who_is_up_to_date_does_not_give_way(new_fakes: NewFakes) -> None:
    live = Stream("live", 2 * KIB)
    traffic = RetainedTraffic([live, *HURRIED])
    fakes = new_fakes(script=traffic.run)
    traffic.begin(fakes, 60)
    fakes.start("live", group="other")
    for one in HURRIED:
        fakes.start(one.name, group="g", policy=CopyPolicy(bytes_per_second=16 * KIB * 2))
    fakes.run_until(lambda: fakes.lane("live").read.is_live, "the lane is up to date")
    for _ in range(30):
        fakes.run(2)
        lane = fakes.lane("live")
        assert lane.read.high_watermark - lane.checkpoint <= 1
    assert not held_back(fakes, "live")
