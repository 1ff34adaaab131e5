"""Test the capacity used for a plan: learned by the instances, fixed by the last planning."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.instance.workers.costs import CostStore
from mirror.model.capacity.capacity import CapacityInUse, CapacityOrigin, CapacityTerms
from mirror.model.capacity.costs import HOUR_MS, CostSums
from mirror.model.identifiers import ClusterRef, GroupName, InstanceName
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeSession, FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

ORDERS, ONE = GroupName("orders"), InstanceName("one")
TERMS = CapacityTerms(None, 1_000_000, None, 100)


class Heavy:
    """A load provider that reports 900 kB/s for every partition."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        return LoadReport({key: PartitionLoad(900_000.0) for key in partitions}, "test")


def a_rig(terms: CapacityTerms = TERMS) -> tuple[LeaderRig, FakeSession]:
    server = FakeZooKeeper()
    clusters = {SOURCE: FakeTopicAdmin(t=4), DESTINATION: FakeTopicAdmin()}
    rig = LeaderRig(server.session(), clusters, provider=Heavy(), terms=terms)
    rig.leader.joined(Membership(server.session()).join(an_instance("one")))
    rig.stores.definitions.create(a_datastream("orders", "t"))
    return rig, server.session()


def say(session: FakeSession, now_ms: int, rate: float) -> None:
    """Store the costs of an instance whose core copies `rate` bytes per second."""
    one = CostSums.of(5.0, 2.5, rate * 2.5, 10.0, 10.0, 10.0)
    found = one
    for _ in range(99):
        found = found.plus(one)
    CostStore(session).put(ONE, {ORDERS: {now_ms // HOUR_MS: found}})


def plan_again(rig: LeaderRig) -> CapacityInUse:
    """Request a plan a minute later and return the capacity that it used."""
    rig.clock.advance(60)
    rig.stores.requests.add(RebalanceRequest(ORDERS, True, "me", "to see", 1))
    rig.leader.tick()
    found = rig.stores.assessments.all()[ORDERS].capacity
    assert found is not None
    return found


def test_the_plan_follows_what_is_learned_and_says_so() -> None:
    rig, session = a_rig()
    rig.leader.tick()
    first = rig.stores.assessments.all()[ORDERS]
    assert first.capacity is not None
    assert (first.capacity.origin, first.required_tasks) == (CapacityOrigin.UNLEARNED, 4)
    say(session, rig.clock.now_ms(), 2_000_000.0)
    second = plan_again(rig)
    assert (second.origin, second.bytes_per_second, second.observations) == ("learned", 2_000_000, 100)
    assert rig.leader.state.assessments[ORDERS].required_tasks == 2
    assert rig.leader.state.assessments[ORDERS].capacity == second


def test_it_stays_until_what_is_learned_differs_by_a_quarter() -> None:
    rig, session = a_rig()
    rig.leader.tick()
    used = []
    for rate in (2_000_000, 2_200_000, 1_800_000, 2_400_000, 1_200_000):
        say(session, rig.clock.now_ms(), rate)
        used.append(plan_again(rig).bytes_per_second)
    assert used == [2_000_000, 2_000_000, 2_000_000, 2_000_000, 1_200_000]


def test_another_leader_and_a_dry_run_go_by_the_same() -> None:
    rig, session = a_rig()
    rig.leader.tick()
    say(session, rig.clock.now_ms(), 2_000_000.0)
    plan_again(rig)
    say(session, rig.clock.now_ms(), 2_300_000.0)
    rig.clock.advance(60)
    dry_run = rig.fleet_planner.preview(RebalanceRequest(ORDERS, True, "me", "to see", 1))
    assert dry_run.capacities[ORDERS].bytes_per_second == 2_000_000


def test_a_number_that_is_set_is_not_touched() -> None:
    rig, session = a_rig(CapacityTerms(500_000, 1_000_000, None, 100))
    rig.leader.tick()
    say(session, rig.clock.now_ms(), 2_000_000.0)
    found = plan_again(rig)
    assert (found.origin, found.bytes_per_second) == (CapacityOrigin.SETTING, 500_000)
    assert found.learned_bytes_per_second == 2_000_000


def test_outdated_costs_are_removed_once_per_interval() -> None:
    rig, session = a_rig()
    say(session, rig.clock.now_ms() - 30 * HOUR_MS, 2_000_000.0)
    rig.leader.tick()
    rig.clock.advance(700)
    rig.leader.tick()
    assert CostStore(session).of(ONE) == {}
