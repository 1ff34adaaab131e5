"""One picture of the world: for the leader's tick, and for a preview that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.coordination.membership import Membership
from mirror.coordination.plan_store import PlanStore
from mirror.coordination.requests import RebalanceRequest
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.topics import TopicDescription, TopicPartition
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin


class Loads:
    """Every partition carries 60 bytes/s; `asked` remembers about whom."""

    def __init__(self) -> None:
        self.asked: list[ClusterRef] = []

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        self.asked.append(cluster)
        return LoadReport({key: PartitionLoad(60.0) for key in partitions}, "test")


def a_rig() -> tuple[LeaderRig, FakeZooKeeper, Loads, FakeTopicAdmin]:
    server, loads, source = FakeZooKeeper(), Loads(), FakeTopicAdmin(t=2)
    clusters = {SOURCE: source, DESTINATION: FakeTopicAdmin()}
    rig = LeaderRig(server.session(), clusters, provider=loads)
    rig.leader.joined(Membership(server.session()).join(an_instance("one")))
    rig.stores.definitions.create(a_datastream("orders", "t"))
    return rig, server, loads, source


def a_request(full: bool = True) -> RebalanceRequest:
    return RebalanceRequest(GroupName("orders"), full, "me", "to see", 1)


def test_loads_are_asked_for_only_when_something_is_planned() -> None:
    rig, _, loads, _ = a_rig()
    rig.leader.tick()
    assert loads.asked == [SOURCE]
    for _ in range(3):
        rig.clock.advance(10)
        rig.leader.tick()
    assert loads.asked == [SOURCE]


def test_a_preview_tells_what_a_request_would_do_and_does_nothing() -> None:
    rig, server, _, source = a_rig()
    rig.leader.tick()
    source.create(TopicDescription("u", 1))
    before = server.dump()
    plans = PlanStore(server.session(), "r")
    epoch = plans.read().plan.epoch
    preview = rig.outlook.preview(a_request())
    assert preview.group_plans["orders"].required_tasks == 2  # type: ignore[index]
    assert server.dump() == before
    rig.stores.requests.add(a_request())
    rig.leader.tick()
    plan = plans.read().plan
    assert (preview.plan is None) == (plan.epoch == epoch)
    assert preview.plan is None or preview.plan.tasks == plan.tasks
