"""Test that a monitor within an instance runs while the instance leads."""

from __future__ import annotations

from mirror.instance.health import Health
from monitor.leader_monitor import PART, LeaderMonitor
from tests.fakes.clock import ManualClock


class FakeMonitor:
    """Monitor that records the calls."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.sentence = "it judges"
        self.is_stopped = False

    def stop(self, deadline_seconds: float) -> None:
        assert deadline_seconds > 0
        self.is_stopped = True


class Rig:
    def __init__(self) -> None:
        self.health, self.clock = Health(), ManualClock()
        self.leads = False
        self.error: Exception | None = None
        self.started: list[FakeMonitor] = []
        self.monitor = LeaderMonitor(self._start, lambda: self.leads, self.health, self.clock)

    def _start(self) -> FakeMonitor:
        if self.error is not None:
            raise self.error
        self.started.append(FakeMonitor())
        return self.started[-1]

    @property
    def running(self) -> list[FakeMonitor]:
        return [one for one in self.started if not one.is_stopped and one.failure is None]

    @property
    def sentence(self) -> str:
        return self.health.conditions()[PART].sentence


def test_it_runs_while_the_instance_leads() -> None:
    rig = Rig()
    for leads in (False, True, True, False, True):
        rig.leads = leads
        rig.monitor.run_once()
        assert len(rig.running) == leads
    assert len(rig.started) == 2
    assert rig.health.is_well


def test_a_monitor_that_ends_or_cannot_begin_is_said_and_tried_again() -> None:
    rig = Rig()
    rig.leads = True
    rig.monitor.run_once()
    rig.started[0].failure = ValueError("a defect")
    rig.monitor.run_once()
    assert not rig.health.is_well
    assert "a defect" in rig.sentence
    rig.monitor.run_once()
    assert not rig.running
    rig.error = OSError("no room")
    rig.clock.advance(30)
    rig.monitor.run_once()
    assert "no room" in rig.sentence
    rig.error = None
    rig.clock.advance(30)
    rig.monitor.run_once()
    assert len(rig.running) == 1
    assert rig.health.is_well
    assert not rig.health.has_died.is_set()


def test_a_stop_ends_what_runs_also_where_nothing_was_started() -> None:
    rig = Rig()
    rig.monitor.stop(1.0)
    rig = Rig()
    rig.leads = True
    rig.monitor.run_once()
    rig.monitor.start()
    rig.monitor.stop(30.0)
    assert not rig.running
