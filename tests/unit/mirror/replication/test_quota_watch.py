"""Test the share of the time for which the quota of a broker throttles a lane."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mirror.model.datastreams.lanes import LaneHeldBack, QuotaHold, QuotaOwner
from mirror.replication.quotas.quota_watch import QuotaWatch
from tests.builders import a_key
from tests.fakes.clock import ManualClock


class CopyingLane:
    key = a_key("t-0")
    state = None


class Channel:
    """Connections of a lane to broker 1, which are throttled for a part of each second."""

    broker = 1

    def __init__(self, lane: CopyingLane, seconds: float) -> None:
        self._lane = lane
        self._seconds = seconds

    def take_throttled(self, _: float) -> tuple[float, tuple[CopyingLane, ...]]:
        return self._seconds, (self._lane,)


def test_a_quota_on_several_connections_of_a_lane_is_counted_once() -> None:
    clock, lane, reports = ManualClock(), CopyingLane(), list[LaneHeldBack]()
    sink = SimpleNamespace(
        channels=[Channel(lane, 0.4)], distant=SimpleNamespace(known=[Channel(lane, 0.3), Channel(lane, 0.4)])
    )
    lanes: Any = SimpleNamespace(
        sources={}, sinks={"west": sink}, by_key={lane.key: lane}, report=reports.append
    )
    context: Any = SimpleNamespace(loop=SimpleNamespace(now=clock.monotonic))
    watch = QuotaWatch(context, lanes)
    for _ in range(20):
        clock.advance(1)
        watch.pump(clock.monotonic())
    holds = [report.hold for report in reports if isinstance(report.hold, QuotaHold)]
    assert {(hold.owner, hold.broker) for hold in holds} == {(QuotaOwner.DESTINATION, 1)}
    assert max(hold.share for hold in holds) < 0.41
