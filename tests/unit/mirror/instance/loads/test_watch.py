"""Test the leader's supervision of the load provider."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from structlog.typing import EventDict

from mirror.coordination.stores.membership import Membership
from mirror.errors import AnalyticsError, LoadUnavailable, TimedOut
from mirror.instance.background_calls import CallPending
from mirror.instance.health import HealthCondition
from mirror.instance.loads.watch import LoadState, LoadStatus, judged
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness
from tests.builders import DESTINATION, SOURCE, SOURCE_LOADS, a_datastream, an_instance
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site
from tests.fakes.topic_admin import FakeTopicAdmin

NOW = 1_000_000
KNOWN = LoadStatus(LoadState.KNOWN, NOW - 9_000, "", NOW - 4_000)
PART = f"loads of {SOURCE}"


@pytest.mark.parametrize(
    ("answer", "before", "state", "since_ms"),
    [
        (Freshness(NOW - 100, 1_000), None, LoadState.KNOWN, NOW),
        (Freshness(NOW - 100, 1_000), KNOWN, LoadState.KNOWN, NOW - 9_000),
        (Freshness(NOW - 1_001, 1_000), KNOWN, LoadState.STALE, NOW),
        (Freshness(None, 1_000), KNOWN, LoadState.UNKNOWN, NOW),
        (LoadUnavailable("no samples"), None, LoadState.UNKNOWN, NOW),
        (LoadUnavailable("no samples"), KNOWN, LoadState.STALE, NOW),
        (TimedOut("frozen"), None, LoadState.UNAVAILABLE, NOW),
        (AnalyticsError("no server"), KNOWN, LoadState.UNAVAILABLE, NOW),
        (ZeroDivisionError("a bug"), KNOWN, LoadState.UNAVAILABLE, NOW),
        (TimedOut("x"), replace(KNOWN, state=LoadState.UNAVAILABLE), LoadState.UNAVAILABLE, NOW - 9_000),
    ],
)
def test_the_state_follows_from_the_answer(
    answer: Freshness | Exception, before: LoadStatus | None, state: LoadState, since_ms: int
) -> None:
    found = judged(answer, before, NOW)
    assert (found.state, found.since_ms) == (state, since_ms)
    assert found.is_well == (state in {LoadState.KNOWN, LoadState.UNKNOWN})


def test_those_behind_are_said_to_be_lower_bounds() -> None:
    found = judged(Freshness(NOW, 1_000, 12, 2), None, NOW)
    assert "2 of 12" in found.reason


class Provider:
    """A load provider that reports the age of its loads, fails, or does not respond."""

    def __init__(self) -> None:
        self.answer: Freshness | Exception = Freshness(None, 60_000)
        self.asked = 0

    def __call__(self, cluster: ClusterRef) -> Freshness:
        assert cluster == SOURCE
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Rig:
    """A leader with one datastream, which is planned only at the start."""

    def __init__(self) -> None:
        self.provider, self.server = Provider(), FakeZooKeeper()
        clusters: dict[ClusterRef, FakeTopicAdmin] = {
            SOURCE: FakeTopicAdmin(t=2),
            DESTINATION: FakeTopicAdmin(),
        }
        self.rig = LeaderRig(self.server.session(), clusters, freshness=self.provider)
        self.me = Membership(self.server.session()).join(an_instance("one"))
        self.rig.leader.joined(self.me)
        self.rig.stores.definitions.create(a_datastream("orders", "t"))
        self.ticks()
        self.known()
        self.ticks(6)

    def known(self) -> None:
        self.provider.answer = Freshness(self.rig.clock.now_ms(), 60_000)

    def ticks(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.rig.clock.advance(1)
            self.rig.leader.tick()

    @property
    def condition(self) -> HealthCondition:
        return self.rig.health.conditions()[PART]

    @property
    def events(self) -> list[str]:
        return [one.sentence for one in self.rig.told if one.kind == "loads"]


@pytest.mark.parametrize(
    "failure", [TimedOut("no answer in time"), CallPending("no answer yet")], ids=["dead", "frozen"]
)
def test_an_outage_is_said_within_15_s_though_nobody_plans_and_when_it_is_over(failure: Exception) -> None:
    rig = Rig()
    assert rig.condition.is_well
    rig.provider.answer = failure
    rig.ticks(15)
    assert not rig.condition.is_well
    assert "are unavailable since" in rig.condition.sentence
    assert rig.rig.leader.state.loads[SOURCE_LOADS].state is LoadState.UNAVAILABLE
    (said,) = rig.events
    assert "by count" in said
    rig.ticks(30)
    assert len(rig.events) == 1
    rig.known()
    rig.ticks(6)
    assert rig.condition.is_well
    assert rig.events[-1].startswith("over, after ")
    assert len({one.event_key for one in rig.rig.told if one.kind == "loads"}) == 2


def test_an_answer_that_takes_seconds_is_no_outage_and_it_is_said() -> None:
    rig = Rig()
    rig.provider.answer = CallPending("no answer yet")
    rig.ticks(9)
    assert rig.condition.is_well
    rig.known()
    rig.ticks()
    assert rig.condition.is_well
    assert re.search(r"; the provider took \d s", rig.condition.sentence)
    rig.ticks(6)
    assert "took" not in rig.condition.sentence
    assert rig.events == []


def test_the_provider_is_not_asked_at_every_look() -> None:
    rig = Rig()
    asked = rig.provider.asked
    rig.ticks(60)
    assert 10 <= rig.provider.asked - asked <= 13


def test_old_measurements_are_stale_and_an_idle_mirror_is_well() -> None:
    rig = Rig()
    rig.ticks(70)
    assert "are stale since" in rig.condition.sentence
    assert not rig.condition.is_well
    rig.provider.answer = Freshness(None, 60_000)
    rig.ticks(6)
    assert rig.condition.is_well
    assert rig.rig.leader.state.loads[SOURCE_LOADS].state is LoadState.UNKNOWN


def test_who_does_not_lead_says_nothing_of_loads() -> None:
    rig = Rig()
    rig.rig.leader.joined(None)
    rig.rig.leader.tick()
    assert PART not in rig.rig.health.conditions()
    assert rig.rig.leader.state.loads == {}


def test_a_cluster_that_nobody_has_measured_yet_is_no_warning(logged: list[EventDict]) -> None:
    site = Site()
    site.create()
    site.tick(4)
    assert [event for event in logged if event["log_level"] in {"warning", "error"}] == []
