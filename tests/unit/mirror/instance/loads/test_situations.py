"""Test plans with missing, old, wrong or new loads: the table of docs/placement/wrong-loads.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from assigner.planner import LoadPlanner
from assigner.settings import AssignerSettings
from headrace.plug_ins.load_answers import CheckedLoads
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.errors import AnalyticsError, LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, PartitionLoad
from mirror.model.plan import Plan
from mirror.model.topics import TopicDescription, TopicPartition
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

pytestmark = pytest.mark.long

PAGE: Final = Path(__file__).parents[5] / "docs/placement/wrong-loads.md"
EVERY: Final = 600.0
STALE_MS: Final = 900_000
RATE: Final = 100_000.0
CAPACITY: Final = 1_000_000
ALL: Final = tuple(TopicPartition("t", number) for number in range(16))
HOUR: Final = 3_600.0


class Samples:
    """A load provider whose responses a test changes."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.known: Mapping[TopicPartition, float] = dict.fromkeys(ALL, RATE)
        self.failure: Exception | None = None
        self.measured_ms = clock.now_ms()

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the known loads, or raise `failure`."""
        if self.failure is not None:
            raise self.failure
        at_ms = self.measured_ms
        found = {
            one: PartitionLoad(self.known[one], measured_at_ms=at_ms)
            for one in partitions
            if one in self.known
        }
        return LoadReport(found, "samples", at_ms)

    def freshness(self, cluster: ClusterRef) -> Freshness:
        """Return the time of the measurements, or raise `failure`."""
        if self.failure is not None:
            raise self.failure
        return Freshness(self.measured_ms, STALE_MS)


class Service:
    """A leader that has planned 16 partitions of 100 kB/s from three observations: two tasks."""

    def __init__(self) -> None:
        session = FakeZooKeeper().session()
        self.source = FakeTopicAdmin(t=16)
        self.clock = ManualClock()
        self.samples = Samples(self.clock)
        self.rig = LeaderRig(
            session,
            {SOURCE: self.source, DESTINATION: FakeTopicAdmin()},
            self.clock,
            LoadPlanner(AssignerSettings().policy()),
            CheckedLoads("samples", self.samples),
            freshness=self.samples.freshness,
            task_bytes_per_second=CAPACITY,
        )
        self.rig.leader.joined(Membership(session).join(an_instance("one")))
        self.rig.stores.definitions.create(a_datastream())
        self.session = session
        self.observe(4)
        assert self.tasks == 2

    def observe(self, times: int = 1, *, is_new: bool = True, every: float = EVERY) -> None:
        """Advance the time by this number of observations."""
        for _ in range(times):
            self.clock.advance(every)
            if is_new:
                self.samples.measured_ms = self.clock.now_ms()
            for _ in range(3):
                self.clock.advance(6)
                self.rig.leader.tick()

    def scale(self, factor: float, *partitions: TopicPartition) -> None:
        """Set these partitions (all if none are given) to `factor` times the original rate."""
        wanted = partitions or ALL
        self.samples.known = {one: RATE * (factor if one in wanted else 1) for one in ALL}

    @property
    def plan(self) -> Plan:
        return PlanStore(self.session, "reader").read().plan

    @property
    def tasks(self) -> int:
        return sum(bool(one.partitions) for one in self.plan.tasks)

    @property
    def homes(self) -> dict[TopicPartition, str]:
        return {partition: one.task for one in self.plan.tasks for partition in one.partitions}

    def said_of_loads(self) -> str:
        one = self.rig.health.conditions()[f"loads of {SOURCE}"]
        return "" if one.is_well else one.sentence

    def add_topic(self, partitions: int) -> frozenset[TopicPartition]:
        """Create a topic without measured loads."""
        self.source.topics["new"] = TopicDescription("new", partitions)
        for _ in range(3):
            self.clock.advance(6)
            self.rig.leader.tick()
        return frozenset(TopicPartition("new", number) for number in range(partitions))


def away(service: Service) -> None:
    before = service.homes
    service.samples.failure = AnalyticsError("connection refused")
    service.observe(5, is_new=False)
    assert service.homes == before
    assert "unavailable" in service.said_of_loads()
    new = service.add_topic(2)
    assert service.homes.keys() == before.keys() | new
    assert {one: service.homes[one] for one in before} == before


def never_there(service: Service) -> None:
    service.samples.failure = LoadUnavailable("nothing is known of source")
    service.rig.memory.newest = type(service.rig.memory.newest)()
    before = service.homes
    service.observe(5, is_new=False)
    assert service.homes == before
    assert service.homes.keys() == before.keys()


def stale(service: Service) -> None:
    before = service.homes
    service.scale(3)
    service.observe(5, is_new=False)
    assert service.homes == before
    assert "stale" in service.said_of_loads()


def too_high_once(service: Service) -> None:
    before = service.homes
    service.scale(10)
    service.observe(1)
    service.scale(1)
    service.observe(5)
    assert service.homes == before


def too_high_for_long(service: Service) -> None:
    service.scale(10)
    service.observe(2)
    assert service.tasks == 2
    service.observe(2)
    assert service.tasks == 16
    service.scale(1)
    service.observe(22, every=HOUR)
    assert service.tasks == 16
    service.observe(24, every=HOUR)
    assert service.tasks < 16


def too_low(service: Service) -> None:
    before = service.homes
    service.scale(0.1)
    service.observe(22, every=HOUR)
    assert service.homes == before
    service.observe(24, every=HOUR)
    assert service.tasks == 1


def spike(service: Service) -> None:
    before = service.homes
    for one in ALL[:3]:
        service.scale(8, one)
        service.observe(1)
        service.scale(1)
        service.observe(3)
    assert service.homes == before


def new_topic(service: Service) -> None:
    before = service.homes
    new = service.add_topic(4)
    assert {one: service.homes[one] for one in before} == before
    assert service.homes.keys() == before.keys() | new
    assert service.tasks == 2
    (found,) = service.rig.leader.state.assessments.values()
    assert found.unknown == 4
    assert any(re.search(r"\b4 of 20\b.*\b5\.1 kB/s\b", one) for one in found.reasons)
    assert found.max_load > 8 * RATE, "assumed loads count"


def new_topic_is_heavy(service: Service) -> None:
    before = service.homes
    new = service.add_topic(4)
    service.samples.known = {**service.samples.known, **dict.fromkeys(new, 3 * RATE)}
    service.observe(4)
    assert service.tasks == 4
    moved = [one for one in before if service.homes[one] != before[one]]
    assert len(moved) < len(before) / 2
    (found,) = service.rig.leader.state.assessments.values()
    assert (found.overloaded, found.moved_lower_bound) == (0, found.moved)


def impossible(service: Service) -> None:
    before = service.homes
    service.samples.known = {**service.samples.known, ALL[3]: float("nan")}
    service.observe(4)
    assert service.homes == before
    service.add_topic(1)
    (found,) = service.rig.leader.state.assessments.values()
    assert any("t-3: nan" in one for one in found.reasons)
    service.scale(10)
    service.observe(4)
    assert service.tasks > 2, "the impossible load is ignored"


SITUATIONS: Final[Mapping[str, Callable[[Service], None]]] = {
    "the provider does not respond": away,
    "no load was ever known": never_there,
    "stale samples": stale,
    "all loads ten times too high, once": too_high_once,
    "all loads ten times too high, for hours": too_high_for_long,
    "all loads ten times too low": too_low,
    "a spike of one minute": spike,
    "a new topic": new_topic,
    "a heavy new topic": new_topic_is_heavy,
    "an impossible load": impossible,
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_the_plan_does(situation: str) -> None:
    SITUATIONS[situation](Service())


def test_the_page_has_a_row_for_each() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)[1:] == list(SITUATIONS)
