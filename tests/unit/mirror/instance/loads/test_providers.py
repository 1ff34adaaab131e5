"""Test load providers chosen by datastreams, next to that of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores import znodes
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.errors import LoadUnavailable
from mirror.instance.background_calls import LoadsPending
from mirror.instance.loads.providers import AGAIN_SECONDS, ProviderInUse, chosen_sources
from mirror.instance.loads.watch import LoadState
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import Freshness, LoadReport, LoadSource, PartitionLoad
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE, SOURCE_LOADS, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

CHOSEN_LOADS = LoadSource(SOURCE, "other")
CHOOSES = {"headrace-placement": "provider other"}
PLAIN, CHOSEN = GroupName("plain"), GroupName("chosen")


class Rates:
    """A load provider that reports one rate for all partitions, or fails; `asked`: requested topics."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.failure: Exception | None = None
        self.asked: set[str] = set()

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        self.asked.update(one.topic for one in partitions)
        if self.failure is not None:
            raise self.failure
        return LoadReport(dict.fromkeys(partitions, PartitionLoad(self.rate)), "test")

    def freshness(self, cluster: ClusterRef) -> Freshness:
        if self.failure is not None:
            raise self.failure
        return Freshness(None, 60_000)


class RecordingPlanner:
    """A planner that records the last request of each group."""

    def __init__(self) -> None:
        self.requests: dict[GroupName, PlanningRequest] = {}

    def plan(self, request: PlanningRequest) -> GroupPlan:
        self.requests[request.group] = request
        return SimplePlanner().plan(request)


class Service:
    """Two datastreams with the same source cluster; one chooses its load provider."""

    def __init__(self) -> None:
        self.server, self.clock, self.planner = FakeZooKeeper(), ManualClock(), RecordingPlanner()
        self.own, self.other = Rates(60.0), Rates(7.0)
        self.clusters = {SOURCE: FakeTopicAdmin(t=2, u=2), DESTINATION: FakeTopicAdmin()}
        self.lead("one")
        self.rig.stores.definitions.create(a_datastream("plain", "t"))
        self.rig.stores.definitions.create(a_datastream("chosen", "u", metadata=CHOOSES))

    def lead(self, name: str) -> None:
        """Start a new leader."""
        session = self.server.session()
        self.rig = LeaderRig(
            session, self.clusters, self.clock, self.planner, self.own, freshness=self.own.freshness
        )
        self.rig.chosen["other"] = ProviderInUse(self.other, self.other.freshness)
        self.me = Membership(session).join(an_instance(name))
        self.rig.leader.joined(self.me)

    def ticks(self, number: int = 1, seconds: float = 1) -> None:
        for _ in range(number):
            self.clock.advance(seconds)
            self.rig.leader.tick()

    def rates(self) -> Mapping[GroupName, set[float]]:
        """Return the rates given to the last planning of each group."""
        return {
            group: {one.bytes_per_second for one in asked.loads.values()}
            for group, asked in self.planner.requests.items()
        }

    def reasons(self, group: GroupName) -> Sequence[str]:
        """Return the reasons of a preview."""
        asked = RebalanceRequest(group, False, "me", "to see", 1)
        return self.rig.fleet_planner.preview(asked).group_plans[group].reasons


def test_each_datastream_is_planned_by_the_loads_that_it_chooses() -> None:
    service = Service()
    service.ticks()
    assert service.rates() == {PLAIN: {60.0}, CHOSEN: {7.0}}
    assert (service.own.asked, service.other.asked) == ({"t"}, {"u"})
    service.ticks(4, 600)
    recent = {group: asked.recent for group, asked in service.planner.requests.items()}
    assert {one.bytes_per_second for seen in recent[CHOSEN] for one in seen.values()} == {7.0}
    assert {one.bytes_per_second for seen in recent[PLAIN] for one in seen.values()} == {60.0}


def test_a_chosen_provider_that_fails_harms_only_those_that_choose_it() -> None:
    service = Service()
    service.other.failure = ZeroDivisionError("a bug")
    service.ticks()
    assert service.rates() == {PLAIN: {60.0}, CHOSEN: set()}
    assert any("ZeroDivisionError" in one for one in service.reasons(CHOSEN))
    assert not any("ZeroDivisionError" in one for one in service.reasons(PLAIN))
    standings = service.rig.leader.state.loads
    assert standings[CHOSEN_LOADS].state is LoadState.UNAVAILABLE
    assert standings[SOURCE_LOADS].state is LoadState.UNKNOWN
    assert not service.rig.health.conditions()[f"loads of {CHOSEN_LOADS}"].is_well
    assert service.rig.health.conditions()[f"loads of {SOURCE_LOADS}"].is_well


def test_a_chosen_provider_that_hangs_holds_up_nobody_else() -> None:
    service = Service()
    service.other.failure = LoadsPending("not yet")
    service.ticks(2)
    service.rig.stores.requests.add(RebalanceRequest(PLAIN, False, "me", "to see", service.clock.now_ms()))
    service.planner.requests.clear()
    service.ticks()
    assert service.rates()[PLAIN] == {60.0}


def test_known_loads_count_while_a_chosen_provider_is_away() -> None:
    service = Service()
    service.ticks()
    service.other.failure = LoadUnavailable("nobody knows")
    assert any("last known" in one for one in service.reasons(CHOSEN))
    assert service.rates()[CHOSEN] == {7.0}


def test_where_a_chosen_provider_cannot_be_made_that_of_the_service_counts_for_a_while() -> None:
    service = Service()
    made = service.rig.chosen.pop("other")
    service.ticks()
    assert service.rates() == {PLAIN: {60.0}, CHOSEN: {60.0}}
    said = "planned by the loads of the service's provider: there is no load provider other"
    assert any(said in one for one in service.reasons(CHOSEN))
    assert not any(said in one for one in service.reasons(PLAIN))
    service.rig.chosen["other"] = made
    service.ticks(1, AGAIN_SECONDS)
    assert not any(said in one for one in service.reasons(CHOSEN))
    assert service.rates()[CHOSEN] == {7.0}


def test_the_next_leader_knows_what_a_chosen_provider_has_said() -> None:
    service = Service()
    service.ticks(4, 600)
    Membership(service.server.session()).leave(service.me)
    service.lead("two")
    service.other.failure = LoadUnavailable("nobody knows")
    service.ticks()
    for source, rate in ((SOURCE_LOADS, 60.0), (CHOSEN_LOADS, 7.0)):
        loads = [one.loads for one in service.rig.memory.all_of(source)]
        assert {load.bytes_per_second for one in loads for load in one.values()} == {rate}
    assert any("last known" in one for one in service.reasons(CHOSEN))
    assert service.rates()[CHOSEN] == {7.0}


def test_a_version_that_knows_only_the_service_s_provider_finds_none_of_the_others() -> None:
    service = Service()
    service.ticks(4, 600)
    session = service.server.session()
    assert session.children(znodes.OBSERVATIONS) == ("source",)
    assert len(session.children(znodes.CHOSEN_OBSERVATIONS)) == 1


def sharing(name: str, placement: str = "") -> Datastream:
    knobs = {"headrace-placement": placement} if placement else {}
    return a_datastream(name, "t", metadata={**knobs, TASK_PREFIX: "shared"})


def test_who_chooses_nothing_or_the_service_s_provider_by_name_is_planned_by_the_service_s() -> None:
    some = [a_datastream("a", "t"), a_datastream("b", "t", metadata={"headrace-placement": "provider self"})]
    assert set(chosen_sources(some, "self").of.values()) == {SOURCE_LOADS}
    assert chosen_sources(some, "pinot").of[some[1].group] == LoadSource(SOURCE, "self")


def test_of_those_that_share_tasks_the_choice_of_one_holds_for_all() -> None:
    plain, other, none = sharing("a"), sharing("b", "provider other"), sharing("c", "provider none")
    assert plain.group == other.group
    assert chosen_sources([plain, other], "self").of == {plain.group: CHOSEN_LOADS}
    assert chosen_sources([plain, none], "self").by_count == {plain.group}
