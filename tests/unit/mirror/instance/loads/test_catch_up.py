"""Test that a backlog counts as load, in addition to new records, until it is copied."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores.measured_load import InstanceMeasurements, LateRecords, MeasuredLoads
from mirror.instance.loads.catch_up import LoadsWithBacklog, with_backlog
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.instance.workers.lane_track import LaneTrack
from mirror.instance.workers.report_publisher import demands_of, measured_demand
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.load import HIGHEST_RATE, LoadLevel, LoadReport, PartitionLoad
from mirror.model.movement.demand import Demand
from mirror.model.movement.history import LanePosition
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import LaneRate
from tests.builders import SOURCE, a_key, a_spec
from tests.fakes.node_store import FakeZooKeeper

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
KEY = a_key("t-0")


def a_lane(*reports: tuple[float, int, int, int | None], phase: LanePhase = LanePhase.COPYING) -> LaneStatus:
    """Return a lane that copies 100 records of 1,000 bytes per second.

    Reports: time, checkpoint, end, age of the backlog.
    """
    track = LaneTrack()
    for at, checkpoint, end, lag_ms in reports:
        place = LanePosition(checkpoint, end, end)
        track.note(LaneRate(KEY, SOURCE, 1e5, 100.0, end - checkpoint, lag_ms, (), place), at, None)
    return LaneStatus(a_spec("t-0"), 0, phase, track=track)


def test_a_lane_in_time_carries_what_it_copies() -> None:
    lane = a_lane((0, 0, 10, 5), (5, 500, 510, 5))
    assert demands_of({KEY: lane}, {}) == {KEY: Demand((1e5, 100.0))}


def test_an_overloaded_lane_carries_what_arrives() -> None:
    lane = a_lane((0, 0, 100_000, 60_000), (10, 1_000, 103_000, 60_000))
    assert demands_of({KEY: lane}, {}) == {KEY: Demand((3e5, 300.0), (102_000_000.0, 102_000.0))}


def test_a_lane_that_stands_still_carries_at_least_what_arrived_before() -> None:
    copying = a_lane((0, 0, 100_000, 60_000), (10, 1_000, 103_000, 60_000))
    before = demands_of({KEY: copying}, {})
    paused = a_lane((20, 1_000, 103_000, 60_000), phase=LanePhase.PAUSED)
    (found,) = demands_of({KEY: paused}, before).values()
    assert (found.arriving, found.is_least) == ((3e5, 300.0), True)
    again = demands_of({KEY: replace(copying, phase=LanePhase.PAUSED)}, {KEY: found})
    assert again[KEY].is_least


def test_of_a_partition_that_two_groups_copy_the_most_counts() -> None:
    other = LaneKey(GroupName("other"), T0)
    lanes = {KEY: a_lane(), other: a_lane()}
    demands = {
        KEY: Demand((10.0, 1.0), (500.0, 5.0)),
        other: Demand((7.0, 1.0), (900.0, 9.0), is_least=True),
    }
    found = measured_demand(lanes, demands, {GroupName("other"): 600})
    assert found == InstanceMeasurements(
        {SOURCE: {T0: (10.0, 1.0)}}, {SOURCE: {T0}}, {SOURCE: {T0: LateRecords(900.0, 9.0, 600)}}
    )


def test_what_is_late_is_added_and_said() -> None:
    loads = MeasuredLoads(FakeZooKeeper().session())
    waiting = {T0: LateRecords(7_200.0, 72.0), T1: LateRecords(6_000.0, 60.0, 600)}
    loads.publish(
        InstanceName("one"),
        InstanceMeasurements(
            {SOURCE: {T0: (10.0, 1.0), T1: (20.0, 1.0), T2: (5.0, 1.0)}}, {}, {SOURCE: waiting}
        ),
        10,
    )
    report = LoadsWithBacklog(loads, loads.waiting, 3_600).loads(SOURCE, [T0, T1, T2])
    assert {key: load.bytes_per_second for key, load in report.loads.items()} == {T0: 12.0, T1: 30.0, T2: 5.0}
    assert report.loads[T1].messages_per_second == 1.1
    (note,) = report.notes
    assert "2 partitions" in note
    assert "12 B/s" in note


rates = st.floats(0, 1e12)
levels = st.sampled_from(LoadLevel)
load = st.builds(PartitionLoad, rates, st.none() | rates, levels)
late = st.builds(LateRecords, st.floats(0, 1e18), st.floats(0, 1e18), st.none() | st.integers(60, 10**6))
places = st.sampled_from([T0, T1, T2])


@given(st.dictionaries(places, load), st.dictionaries(places, late), st.floats(60, 10**6))
def test_no_load_becomes_less_and_none_is_invented(
    loads: dict[TopicPartition, PartitionLoad], waiting: dict[TopicPartition, LateRecords], seconds: float
) -> None:
    found = with_backlog(LoadReport(loads, "some"), waiting, seconds).loads
    assert found.keys() == loads.keys()
    for key, before in loads.items():
        if before.level is LoadLevel.DEFAULT or key not in waiting:
            assert found[key] == before
            continue
        assert HIGHEST_RATE >= found[key].bytes_per_second >= before.bytes_per_second
        assert HIGHEST_RATE >= (found[key].messages_per_second or 0.0) >= (before.messages_per_second or 0.0)
        assert (found[key].messages_per_second is None) == (before.messages_per_second is None)
