"""Test the duties of the leader, one tick at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from mirror.control.admission import Admission, ClusterRights
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.routes.routes import RouteVerdict
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import to_document
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.coordination.stores.membership import Holding, LiveInstance, Membership
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore
from mirror.coordination.stores.problems import Problem, ProblemStore, TroubleStore
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.errors import AnalyticsError, NotFound, PlanRejected, Unreachable
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, StartPosition
from mirror.model.datastreams.metadata import CREATED_MS
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadReport, TaskLimits
from mirror.model.plan import GroupPlan, Plan, PlanningRequest
from mirror.model.topics import TopicDescription, TopicNaming, TopicPartition, TopicSelection
from tests.builders import DESTINATION, SOURCE, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper, Fault, Operation
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import wait_until

_S = DatastreamStatus


class LeaderService:
    """A service with one instance, its leader, and two clusters."""

    def __init__(self, **more: object) -> None:
        self.server = FakeZooKeeper()
        self.source = FakeTopicAdmin(t=2)
        self.destination = FakeTopicAdmin()
        self.clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: self.source, DESTINATION: self.destination}
        self.clock = ManualClock()
        self.session = self.server.session()
        self.rig = LeaderRig(self.session, self.clusters, self.clock, **more)  # type: ignore[arg-type]
        self.leader, self.definitions = self.rig.leader, self.rig.stores.definitions
        self.me = self.join("one")
        self.leader.joined(self.me)

    def join(self, name: str) -> LiveInstance:
        return Membership(self.server.session()).join(an_instance(name))

    def create(self, *datastreams: Datastream) -> None:
        for one in datastreams:
            self.definitions.create(replace(one, status=_S.INITIALIZING))

    def set_status(self, name: str, status: DatastreamStatus) -> None:
        stored = self.definitions.get(DatastreamName(name))
        self.definitions.replace(stored, replace(stored.datastream, status=status))

    def status(self, name: str) -> DatastreamStatus:
        return self.definitions.get(DatastreamName(name)).datastream.status

    def tick(self, times: int = 1) -> str:
        for _ in range(times):
            self.clock.advance(10)
            said = self.leader.tick()
        return said

    def stored(self, name: str) -> Datastream:
        return self.definitions.get(DatastreamName(name)).datastream

    def problem(self, name: str) -> str:
        return self.rig.stores.problems.all()[DatastreamName(name)].reason

    def planned(self) -> set[str]:
        plan = PlanStore(self.server.session(), "r").read().plan
        return {f"{group}:{partition}" for group, partition in plan.owners}

    def epoch(self) -> int:
        return PlanStore(self.server.session(), "r").read().plan.epoch

    def ill(self) -> list[str]:
        return [part for part, one in self.rig.health.conditions().items() if not one.is_well]


@pytest.fixture
def house() -> LeaderService:
    return LeaderService()


def test_what_a_look_writes_of_many_datastreams_is_written_together() -> None:
    house = LeaderService()
    house.create(*(a_datastream(f"d{number}", f"t{number}") for number in range(250)))
    begin = len(house.session.log)
    house.tick()
    written = [one for one in house.session.log[begin:] if one.is_write]
    for folder, most in {"datastreams": 3, "assessments": 3, "problems": 3}.items():
        mine = [one for one in written if one.path.startswith(f"/{folder}/")]
        assert {one.name for one in mine} == {"change_together"}, folder
        assert len(mine) <= most, folder
    assert len(house.rig.stores.assessments.all()) == len(house.rig.stores.problems.all()) == 250
    house.source.topics = {f"t{number}": TopicDescription(f"t{number}", 1) for number in range(250)}
    begin = len(house.session.log)
    house.tick()
    assert house.rig.stores.problems.all() == {}
    assert len([one for one in house.session.log[begin:] if one.path.startswith("/problems/d")]) <= 253


def test_a_new_datastream_is_prepared_made_ready_and_planned_in_one_tick(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t", naming=TopicNaming("copy.*")))
    said = house.tick()
    assert house.status("orders") is _S.READY
    assert house.destination.topics["copy.t"].partitions == 2
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    assert "2 partitions added" in said
    assert house.leader.is_leading


def test_nothing_new_is_no_new_epoch(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    assert "no change" in house.tick(3)
    assert house.epoch() == 1


def test_only_the_first_to_arrive_leads(house: LeaderService) -> None:
    second = LeaderRig(house.server.session(), house.clusters, house.clock)
    me = house.join("two")
    second.leader.joined(me)
    house.create(a_datastream("orders", "t"))
    assert second.leader.tick() == "one leads"
    assert house.epoch() == 0
    Membership(house.session).leave(house.me)
    second.leader.tick()
    assert second.leader.is_leading
    assert house.epoch() == 1


def test_an_instance_without_a_place_does_not_lead(house: LeaderService) -> None:
    house.leader.joined(None)
    house.create(a_datastream("orders", "t"))
    assert house.tick() == "one leads"
    assert not house.leader.is_leading
    assert house.epoch() == 0


def test_new_partitions_and_topics_are_found_and_grown_at_the_destination(house: LeaderService) -> None:
    house.create(a_datastream("orders", ".*"))
    house.tick()
    house.source.grow("t", 3)
    house.source.create(TopicDescription("u", 1))
    house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1", "orders:t-2", "orders:u-0"}
    assert house.destination.list_topics() == {"t": 3, "u": 1}


def test_a_source_that_does_not_answer_changes_nothing_until_it_does(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    house.source.failure = Unreachable("no answer")
    house.source.topics["t"] = TopicDescription("t", 5)
    house.tick(2)
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    house.source.failure = None
    house.tick()
    assert len(house.planned()) == 5


def test_a_destination_that_does_not_answer_is_shown_and_tried_again(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.destination.failure = Unreachable("destination is down")
    house.tick()
    assert house.ill() == ["datastream orders"]
    house.destination.failure = None
    house.tick()
    assert house.ill() == []
    assert house.destination.list_topics() == {"t": 2}


@pytest.mark.parametrize("status", [_S.PAUSED, _S.STOPPING, _S.DELETING])
def test_trouble_with_a_datastream_that_is_no_longer_mirrored_is_forgotten(
    house: LeaderService, status: DatastreamStatus
) -> None:
    house.create(a_datastream("orders", "t"))
    house.destination.failure = Unreachable("destination is down")
    house.tick()
    house.set_status("orders", status)
    house.tick(3)
    assert house.ill() == []


def test_trouble_that_a_leader_saw_is_not_its_own_once_it_does_not_lead(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.destination.failure = Unreachable("destination is down")
    house.tick()
    house.leader.joined(None)
    house.tick()
    assert house.ill() == []


def test_a_stopping_datastream_is_stopped_once_nothing_of_it_is_planned(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    house.set_status("orders", _S.STOPPING)
    house.tick()
    assert house.planned() == set()
    house.tick()
    assert house.status("orders") is _S.STOPPED


def test_a_deleted_datastream_disappears(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    house.tick()
    house.set_status("orders", _S.DELETING)
    house.tick(2)
    assert house.planned() == {"users:t-0", "users:t-1"}
    with pytest.raises(NotFound):
        house.status("orders")
    assert house.destination.list_topics() == {"t": 2, "u.t": 2}


def test_what_was_adopted_is_kept_until_the_last_of_its_group_is_gone(house: LeaderService) -> None:
    house.destination.create(TopicDescription("t", 2))
    shared = {"system.taskPrefix": "both"}
    house.create(a_datastream("a", "t", metadata=shared), a_datastream("b", "u", metadata=shared))
    house.tick()
    record = MadeTopics(house.session, znodes.ADOPTED)
    for name, known in (("a", {DESTINATION: frozenset({"t"})}), ("b", None)):
        assert record.of(GroupName("both"))
        house.set_status(name, _S.DELETING)
        house.tick(3)
        assert record.of(GroupName("both")) == known


@pytest.mark.parametrize("number", range(45))
def test_a_late_removal_spares_a_new_datastream_with_the_same_name(house: LeaderService, number: int) -> None:
    """Another leader finishes the removal, and a user creates the datastream again, between two requests."""
    old = a_datastream("orders", "t", start=StartPosition.LATEST, metadata={CREATED_MS: "1"})
    new = replace(old, metadata={**old.metadata, CREATED_MS: "2"}, status=_S.INITIALIZING)
    house.create(old)
    house.tick()
    house.set_status("orders", _S.DELETING)
    other, begin = house.server.session(), len(house.session.log)

    def recreate(operation: Operation) -> None:
        if operation.number == begin + number:
            records = (FirstPartitionsStore(other).forget(old.name),)
            DefinitionStore(other).remove(old.name, records=records)
            DefinitionStore(other).create(new)
            FirstPartitionsStore(other).record(new, {"t": 2})

    house.session.script = recreate
    house.clock.advance(10)
    house.leader._try_tick()
    house.session.script = lambda _: None
    if len(house.session.log) > begin + number:
        assert house.stored("orders").created_ms == 2
        assert house.status("orders") is not _S.DELETING
        first = FirstPartitionsStore(other).of(new)
        assert first is not None
        assert first.since_ms == 2
    else:
        assert house.definitions.names() == ()
        assert other.children(znodes.BEGINNINGS) == ()


@pytest.mark.parametrize(("status", "end"), [(_S.STOPPING, _S.STOPPED), (_S.DELETING, None)])
def test_a_member_of_a_group_ends_although_the_others_go_on(
    house: LeaderService, status: DatastreamStatus, end: DatastreamStatus | None
) -> None:
    house.source.create(TopicDescription("u", 1))
    shared = {"system.taskPrefix": "both"}
    house.create(a_datastream("a", "t", metadata=shared), a_datastream("b", "u", metadata=shared))
    house.tick()
    assert house.planned() == {"both:t-0", "both:t-1", "both:u-0"}
    house.set_status("a", status)
    house.tick(3)
    assert house.planned() == {"both:u-0"}
    names = {one.datastream.name: one.datastream.status for one in house.definitions.all().readable}
    assert names == ({"a": end, "b": _S.READY} if end else {"b": _S.READY})


def test_a_name_that_is_used_again_has_its_new_destination_prepared(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    house.set_status("orders", _S.DELETING)
    house.tick(2)
    house.create(a_datastream("orders", "t", naming=TopicNaming("copy.*")))
    house.tick()
    assert house.destination.list_topics() == {"t": 2, "copy.t": 2}


def test_a_request_is_answered_by_a_plan_and_taken(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    MeasuredLoads(house.session).publish(
        InstanceName("one"),
        InstanceMeasurements({SOURCE: {TopicPartition("t", n): (80.0, 1.0) for n in range(2)}}),
        1,
    )
    house.rig.stores.requests.add(RebalanceRequest(GroupName("orders"), True, "a test", "to see", 5))
    said = house.tick()
    assert "to see" in said
    assert len(PlanStore(house.session, "r").read().plan.tasks) == 2
    assert house.rig.stores.requests.pending() == ()


def test_a_request_that_changes_nothing_is_taken_too(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    house.rig.stores.requests.add(RebalanceRequest(GroupName("orders"), False, "a test", "to see", 5))
    house.tick()
    assert house.epoch() == 1
    assert house.rig.stores.requests.pending() == ()


def test_every_plan_is_told_with_its_moves(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    assert [one.kind for one in house.rig.told] == ["plan", "datastream", "move", "move"]
    assert list(house.rig.events.newest(10)) == house.rig.told
    assert {one.instance for one in house.rig.told} == {"one"}


class Failing:
    """A load provider that always raises AnalyticsError."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        raise AnalyticsError("half an answer")


def test_whatever_ails_the_provider_placement_goes_on_by_count() -> None:
    house = LeaderService(provider=Failing())
    house.create(a_datastream("orders", "t"))
    house.tick()
    assert len(house.planned()) == 2


class Rejecting:
    """A planner that rejects every request."""

    def plan(self, request: PlanningRequest) -> GroupPlan:
        raise PlanRejected("impossible")


def test_a_group_that_cannot_be_planned_is_no_reason_to_stop() -> None:
    house = LeaderService(planner=Rejecting())
    house.create(a_datastream("orders", "t"))
    assert "no change" in house.tick()


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(0, 45))
def test_whichever_request_fails_the_next_tick_finishes_the_work(
    house: LeaderService, number: int, after_effect: bool
) -> None:
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    begin = len(house.session.log)
    house.session.script = lambda one: Fault(after_effect) if one.number == begin + number else None
    for _ in range(4):
        house.clock.advance(10)
        house.leader._try_tick()
    house.session.script = lambda _: None
    assert house.planned() == {f"{group}:t-{number}" for group in ("orders", "users") for number in (0, 1)}
    assert house.status("orders") is _S.READY
    assert house.epoch() <= 2
    told = [one.plan_epoch for one in house.rig.events.newest(100) if one.kind == "plan"]
    assert set(told) == set(range(1, house.epoch() + 1))


def test_a_damaged_definition_does_not_end_the_leader(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    house.session.create("/datastreams/broken", b'{"name":"broken"}')
    house.source.grow("t", 3)
    house.tick()
    assert "missing field topics" in house.leader.state.problems[DatastreamName("broken")].reason
    assert house.planned() == {"orders:t-0", "orders:t-1", "orders:t-2"}
    house.definitions.remove(DatastreamName("broken"))
    house.tick()
    assert not house.leader.state.problems


def test_what_runs_of_a_definition_that_becomes_damaged_goes_on_also_under_another_leader() -> None:
    house = LeaderService()
    house.source.create(TopicDescription("u", 2))
    house.create(a_datastream("orders", "t"), a_datastream("users", "u"))
    house.tick(2)
    stored = house.session.read("/datastreams/orders")
    house.session.write("/datastreams/orders", b"\xff", stored.version)
    planned = house.planned()
    house.source.grow("u", 3)
    house.tick()
    assert house.planned() > planned
    another = LeaderRig(house.server.session(), house.clusters, house.clock)
    another.leader.joined(house.me)
    house.leader.joined(None)
    house.source.grow("u", 4)
    house.clock.advance(10)
    another.leader.tick()
    assert house.planned() >= planned | {"users:u-3"}
    assert DatastreamName("orders") in another.leader.state.problems


DAMAGES = [b"", b"?", b"{}"]


@pytest.mark.parametrize("data", DAMAGES)
def test_a_damaged_commit_marker_is_healed_and_no_task_changes(house: LeaderService, data: bytes) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    before = PlanStore(house.server.session(), "r").read().plan
    house.session.write("/plan", data, house.session.read("/plan").version)
    assert "commit marker" in house.tick()
    healed = PlanStore(house.server.session(), "r").read().plan
    assert (healed.tasks, healed.epoch > before.epoch) == (before.tasks, True)
    (event,) = [one for one in house.rig.told if one.event_key.startswith("recovery/")]
    assert repr(data)[1:-1] in event.sentence
    assert "no change" in house.tick()
    assert not house.ill()


@pytest.mark.parametrize("data", DAMAGES)
def test_a_leader_that_is_new_heals_the_marker_too_and_keeps_tasks_where_they_run(
    house: LeaderService, data: bytes
) -> None:
    house.join("two")
    house.create(a_datastream("orders", "t", limits=TaskLimits(min_tasks=2)))
    house.tick()
    before = PlanStore(house.server.session(), "r").read().plan
    assert {one.instance for one in before.tasks} == {"one", "two"}
    house.session.write("/plan", data, house.session.read("/plan").version)
    another = LeaderRig(house.server.session(), house.clusters, house.clock)
    another.leader.joined(house.me)
    house.leader.joined(None)
    house.clock.advance(10)
    another.leader.tick()
    healed = PlanStore(house.server.session(), "r").read().plan
    assert (healed.tasks, healed.epoch > before.epoch) == (before.tasks, True)


def test_a_healing_that_breaks_off_is_done_by_the_next_look(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    planned, epoch = house.planned(), house.epoch()
    house.session.write("/plan", b"?", house.session.read("/plan").version)
    number = len(house.session.log)
    house.session.script = lambda one: (
        Fault(after_effect=False) if one.is_write and "/plan" in one.path else None
    )
    house.clock.advance(10)
    house.leader._log_sentence(house.leader._try_tick())
    assert len(house.session.log) > number
    house.session.script = lambda _: None
    house.tick()
    assert house.planned() == planned
    assert house.epoch() > epoch


def test_a_plan_after_one_that_was_deleted_has_an_epoch_that_nobody_obeys(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    members = Membership(house.session)
    members.announce(house.me, Holding(Epoch(41), frozenset(), frozenset({GroupName("orders")})))
    house.session.delete_tree("/plan")
    house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    assert house.epoch() == 42


def test_a_leader_that_was_overtaken_publishes_nothing(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    other = PlanStore(house.server.session(), "other")
    house.source.grow("t", 3)

    def overtake(requests: Mapping[str, object] | object) -> None:
        known = other.read()
        if known.plan.epoch == 1:
            other.publish(replace(known.plan, epoch=2, reason="the other's"), known)  # type: ignore[arg-type]

    def script(operation: object) -> None:
        if getattr(operation, "name", "") == "write" and getattr(operation, "path", "") == "/plan":
            overtake(operation)

    house.session.script = script
    house.clock.advance(10)
    assert "retrying" in house.leader._try_tick()
    assert PlanStore(house.server.session(), "r").read().plan.reason == "the other's"
    house.tick()
    assert house.epoch() == 3


def test_the_services_own_topics_are_made_when_their_cluster_answers(house: LeaderService) -> None:
    house.rig.topic_discovery.own_topics.need(DESTINATION, TopicDescription("own", 4))
    house.destination.failure = Unreachable("not yet")
    house.tick()
    house.destination.failure = None
    house.tick()
    assert house.destination.list_topics() == {"own": 4}


def test_the_thread_ticks_when_it_is_woken_and_ends(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.leader.start()
    wait_until(lambda: house.epoch() == 1)
    house.create(a_datastream("more", "t", naming=TopicNaming("more.*")))
    wait_until(lambda: house.epoch() == 2)
    house.leader.stop(5.0)
    house.leader.stop(5.0)
    assert house.rig.health.is_well


class Broken(FakeTopicAdmin):
    """A cluster whose client has a bug."""

    def list_topics(self) -> Mapping[str, int]:
        raise RecursionError("too deep")


def test_whatever_a_step_raises_sets_one_datastream_aside_until_it_succeeds(house: LeaderService) -> None:
    elsewhere = ClusterRef("elsewhere")
    broken = house.clusters[elsewhere] = Broken()
    house.create(a_datastream("bad", "t", destination=elsewhere), a_datastream("orders", "t"))
    house.tick()
    bad = DatastreamName("bad")
    assert house.planned() == {"orders:t-0", "orders:t-1", "bad:t-0", "bad:t-1"}
    assert house.ill() == ["datastream bad"]
    problem = house.rig.stores.problems.all()[bad]
    assert problem.reason.endswith("RecursionError: too deep")
    assert house.leader.state.problems == {bad: problem}
    house.tick(3)
    assert house.rig.stores.problems.all() == {bad: problem}
    house.clusters[elsewhere] = FakeTopicAdmin()
    house.clusters[elsewhere].identity = broken.identity
    house.tick()
    assert house.ill() == []
    assert house.rig.stores.problems.all() == {}
    told = [one for one in house.rig.told if one.kind == "problem"]
    assert [(one.datastream, one.sentence.partition(":")[0]) for one in told] == [
        ("bad", "problem"),
        ("bad", "resolved"),
    ]
    assert len({one.event_key for one in told}) == 2


def test_a_datastream_that_must_not_be_mirrored_has_no_tasks_until_the_reason_is_gone(
    house: LeaderService,
) -> None:
    refused: dict[DatastreamName, str] = {}
    house.rig.judge_by(RouteVerdict(refused, {}))
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    house.tick()
    refused[DatastreamName("users")] = "it would copy its own copies"
    house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    assert house.ill() == ["datastream users"]
    refused.clear()
    house.tick()
    assert len(house.planned()) == 4
    assert house.ill() == []


def test_a_check_that_fails_leaves_refused_what_was_refused(house: LeaderService) -> None:
    refused: dict[DatastreamName, str] = {DatastreamName("users"): "a loop"}
    house.rig.judge_by(RouteVerdict(refused, {}))
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    house.tick()

    def fail(_: object, __: object) -> RouteVerdict:
        raise KeyError("cluster")

    house.rig.fleet_planner.judgement = fail
    house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1"}


def test_a_request_that_cannot_be_carried_out_is_answered_with_an_event(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    requests = house.rig.stores.requests
    requests.add(RebalanceRequest(GroupName("gone"), False, "a test", "to see", 5))
    requests.add(MoveRequest(GroupName("orders"), frozenset({TopicPartition("t", 0)}), "nowhere", "me", 5))
    house.tick()
    assert requests.pending() == ()
    told = {one.datastream: one.sentence for one in house.rig.told if one.kind == "request"}
    assert "group gone" in told["gone"]
    assert "nowhere" in told["orders"]


def test_a_problem_that_a_former_leader_writes_late_does_not_stay(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    late = ProblemStore(house.server.session())
    late.put(DatastreamName("orders"), Problem("its destination does not respond", 1))
    house.tick(7)
    assert late.all() == {}
    assert house.ill() == []


def test_a_new_leader_goes_on_with_the_problems_that_the_last_one_found(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.destination.failure = Unreachable("destination is down")
    house.tick()
    before = house.rig.stores.problems.all()
    second = LeaderRig(house.server.session(), house.clusters, house.clock)
    second.leader.joined(house.join("two"))
    Membership(house.session).leave(house.me)
    house.clock.advance(10)
    second.leader.tick()
    assert second.stores.problems.all() == before
    assert [one for one in second.told if one.kind == "problem"] == []


class ScriptedPlanner:
    """A planner that returns or raises a given result for the group `bad`."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def plan(self, request: PlanningRequest) -> GroupPlan:
        found = SimplePlanner().plan(request)
        if request.group != "bad":
            return found
        answer = self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, GroupPlan)
        return answer


@pytest.mark.parametrize(
    "answer",
    [
        RecursionError("deep"),
        MemoryError(),
        GroupPlan(
            {TaskName("bad-0"): frozenset({TopicPartition("t", 0)})}
            | {TaskName("bad-1"): frozenset({TopicPartition("t", 0)})},
            {},
            2,
        ),
        GroupPlan({TaskName("bad-0"): frozenset({TopicPartition("t", 0)})}, {TaskName("bad-0"): "much"}, 1),  # type: ignore[dict-item]
    ],
    ids=["recursion", "memory", "twice", "no number"],
)
def test_a_group_that_breaks_the_planner_or_the_plan_is_set_aside_alone(answer: object) -> None:
    house = LeaderService(planner=ScriptedPlanner(answer))
    house.create(a_datastream("bad", "t", naming=TopicNaming("b.*")), a_datastream("orders", "t"))
    assert "2 partitions added" in house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    assert house.ill() == ["datastream bad"]


def test_a_group_whose_name_would_end_the_session_is_set_aside(house: LeaderService) -> None:
    document = to_document(a_datastream("bad", "t"))
    document["metadata"]["system.taskPrefix"] = "x" * 140_000
    house.session.create("/datastreams/bad", node_codec.encode(document))
    house.create(a_datastream("orders", "t"))
    house.tick()
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    assert "system.taskPrefix" in house.rig.stores.problems.all()[DatastreamName("bad")].reason


def test_a_datastream_that_cannot_be_changed_or_removed_holds_up_nobody(house: LeaderService) -> None:
    house.create(a_datastream("bad", "t", naming=TopicNaming("b.*")), a_datastream("orders", "t"))
    house.tick()
    house.session.create("/datastreams/bad/below")
    house.set_status("bad", _S.DELETING)
    house.set_status("orders", _S.STOPPING)
    house.tick(3)
    assert house.planned() == set()
    assert house.status("orders") is _S.STOPPED
    assert house.definitions.names() == ("orders",)


def test_somebody_who_changes_a_datastream_meanwhile_wins_and_the_others_go_on(house: LeaderService) -> None:
    house.create(a_datastream("a", "t", naming=TopicNaming("a.*")), a_datastream("b", "t"))
    other = DefinitionStore(house.server.session())

    def overtake(operation: Operation) -> None:
        if operation.is_write and "/datastreams/a" in operation.paths:
            stored = other.get(DatastreamName("a"))
            if stored.datastream.status is _S.INITIALIZING:
                other.replace(stored, replace(stored.datastream, status=_S.PAUSED))

    house.session.script = overtake
    house.tick()
    assert (house.status("a"), house.status("b")) == (_S.PAUSED, _S.READY)
    house.tick()
    assert house.planned() == {"a:t-0", "a:t-1", "b:t-0", "b:t-1"}, "a pause keeps the placement"
    assert house.ill() == []


def test_an_error_outside_of_every_bulkhead_does_not_end_the_instance(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.tick()
    failing = [True]

    def script(operation: Operation) -> None:
        if failing and operation.path == "/live":
            raise KeyError("bug")

    house.session.script = script
    house.leader._log_sentence(house.leader._try_tick())
    assert house.ill() == ["leader"]
    assert not house.rig.health.has_died.is_set()
    failing.clear()
    house.leader._log_sentence(house.leader._try_tick())
    assert house.ill() == []


def test_a_source_that_does_not_answer_is_its_datastreams_problem(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"))
    house.source.failure = Unreachable("gone fishing")
    house.tick()
    assert house.ill() == ["datastream orders"]
    house.source.failure = None
    house.tick()
    assert house.ill() == []


def test_lanes_that_stand_still_anywhere_are_their_datastreams_problem(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    house.tick()
    told = TroubleStore(house.server.session())
    told.publish(
        znodes.TROUBLES,
        7,
        {GroupName("orders"): "t-0 is stalled: too large", GroupName("gone"): "nobody cares"},
    )
    house.tick()
    assert house.ill() == ["datastream orders"]
    assert "too large" in house.rig.stores.problems.all()[DatastreamName("orders")].reason
    house.session.write("/troubles/i-0000000007", b"rubbish", 0)
    house.tick()
    assert house.ill() == []
    told.publish(znodes.TROUBLES, 7, {})


def test_a_quota_that_holds_lanes_back_anywhere_is_a_remark_and_no_event(house: LeaderService) -> None:
    house.create(a_datastream("orders", "t"), a_datastream("users", "t", naming=TopicNaming("u.*")))
    house.tick()
    says, problems = TroubleStore(house.server.session()), house.rig.stores.problems
    told = [one for one in house.rig.told if one.kind == "problem"]
    says.publish(znodes.QUOTAS, 7, {GroupName("orders"): "t-0 is limited by a quota"})
    says.publish(znodes.QUOTAS, 8, {GroupName("gone"): "nobody cares"})
    house.tick(2)
    name = DatastreamName("orders")
    (remark,) = problems.all().items()
    assert remark[0] == name
    assert not remark[1].sets_aside
    assert house.ill() == []
    assert "quota" in house.rig.health.conditions()["datastream orders"].sentence
    says.publish(znodes.TROUBLES, 7, {GroupName("orders"): "t-0 is stalled: too large"})
    house.tick(2)
    assert problems.all()[name].sets_aside, "a stalled lane takes precedence"
    says.publish(znodes.TROUBLES, 7, {})
    house.tick(2)
    assert "quota" in problems.all()[name].reason
    says.publish(znodes.QUOTAS, 7, {})
    house.tick(2)
    assert problems.all() == {}
    news = [one.sentence for one in house.rig.told if one.kind == "problem"][len(told) :]
    assert [sentence.partition(":")[0] for sentence in news] == ["problem", "resolved"]


def test_what_two_would_write_is_written_by_the_older_one_and_said(house: LeaderService) -> None:
    house.create(
        a_datastream("old", "t", metadata={"system.creation.ms": "1"}),
        a_datastream("new", "t", metadata={"system.creation.ms": "2"}),
    )
    house.tick()
    assert house.planned() == {"old:t-0", "old:t-1"}
    assert house.ill() == ["datastream new"]
    assert "datastream old" in house.problem("new")
    house.set_status("old", _S.DELETING)
    house.tick(3)
    assert house.planned() == {"new:t-0", "new:t-1"}
    assert house.ill() == []


def test_a_datastream_that_would_copy_back_has_no_tasks(house: LeaderService) -> None:
    there = a_datastream("there", "t", metadata={"system.creation.ms": "1"})
    house.create(there, a_datastream("back", "t", source=DESTINATION, destination=SOURCE))
    for _ in range(3):  # includes the tick that creates the topic that would be copied back
        house.tick()
        assert house.planned() == {"there:t-0", "there:t-1"}
    assert re.search(r"\bsource\b.*\bthere\b", house.problem("back"))


def test_a_ring_is_not_closed_by_the_tick_that_makes_its_topics(house: LeaderService) -> None:
    third = ClusterRef("third")
    house.clusters[third] = FakeTopicAdmin()
    house.create(
        a_datastream("one", "t", metadata={"system.creation.ms": "1"}),
        a_datastream("two", "t", source=DESTINATION, destination=third, metadata={"system.creation.ms": "2"}),
        a_datastream("three", ".*", source=third, destination=SOURCE),
    )
    for _ in range(5):
        house.tick()
        assert not any(one.startswith("three:") for one in house.planned())
    assert house.planned() == {"one:t-0", "one:t-1", "two:t-0", "two:t-1"}
    assert re.search(r"\bsource\b.*\btwo\b", house.problem("three"))


def test_topics_that_come_while_the_leader_looks_are_planned_once_they_are_judged(
    house: LeaderService,
) -> None:
    there = a_datastream("there", "t.*", metadata={"system.creation.ms": "1"})
    house.create(there, a_datastream("back", "t.*", source=DESTINATION, destination=SOURCE))
    house.tick()
    judge = house.rig.watch.check

    def judged(datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        verdict = judge(datastreams, plan)
        for cluster in house.clusters.values():
            cluster.topics["t2"] = TopicDescription("t2", 1)
        house.clock.advance(10)
        return verdict

    house.rig.fleet_planner.judgement = judged
    house.tick()
    assert house.planned() == {"there:t-0", "there:t-1"}
    house.tick()
    assert house.planned() == {"there:t-0", "there:t-1", "there:t2-0"}


def test_one_cluster_under_two_names_stays_refused_while_it_is_away(house: LeaderService) -> None:
    elsewhere = ClusterRef("elsewhere")
    house.clusters[elsewhere] = house.clusters[SOURCE]
    house.create(a_datastream("self", "t", destination=elsewhere), a_datastream("orders", "t"))
    house.tick()
    assert "same cluster" in house.problem("self")
    another = LeaderRig(house.session, house.clusters, house.rig.clock)
    house.clusters[SOURCE].failure = Unreachable("gone")
    verdict = another.watch.check([house.stored("self")], NO_PLAN.plan)
    assert "same cluster" in verdict.refused[DatastreamName("self")]


def test_an_expression_that_matches_nothing_is_remarked_on(house: LeaderService) -> None:
    house.create(a_datastream("nothing", "none"), a_datastream("orders", "t"))
    house.tick()
    problem = house.rig.stores.problems.all()[DatastreamName("nothing")]
    assert re.search(r"\bsource\b.*\bnone\b.*\bDESCRIBE\b", problem.reason)
    assert not problem.sets_aside
    assert house.ill() == []
    assert problem.reason in house.rig.health.conditions()["datastream nothing"].sentence
    house.clusters[SOURCE].create(TopicDescription("none", 1))
    house.tick()
    assert house.rig.stores.problems.all() == {}


def test_an_exclusion_that_matches_nothing_is_mentioned(house: LeaderService) -> None:
    selection = TopicSelection("t", "paymentz")
    house.create(replace(a_datastream("orders", "t"), selection=selection))
    house.tick()
    problem = house.rig.stores.problems.all()[DatastreamName("orders")]
    assert ("'paymentz'" in problem.reason, problem.sets_aside) == (True, False)
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    house.clusters[SOURCE].create(TopicDescription("paymentz", 1))
    house.tick()
    assert house.rig.stores.problems.all() == {}


def test_what_would_be_refused_today_runs_on_and_is_remarked_on(house: LeaderService) -> None:
    rights = dict.fromkeys(house.clusters, ClusterRights(readers=["others"]))
    house.rig.admission = Admission(rights)
    house.create(a_datastream("orders", "t"))
    house.tick(2)
    problem = house.rig.stores.problems.all()[DatastreamName("orders")]
    assert not problem.sets_aside
    assert re.search(r"'tests'.*\bread\b.*\bsource\b", problem.reason)
    assert house.planned() == {"orders:t-0", "orders:t-1"}
    stored = house.definitions.get(DatastreamName("orders"))
    given = {**stored.datastream.metadata, "owner": "others"}
    house.definitions.replace(stored, replace(stored.datastream, metadata=given))
    house.tick()
    assert house.rig.stores.problems.all() == {}


def test_a_topic_that_is_named_and_may_not_be_described_is_a_problem_until_it_may(
    house: LeaderService,
) -> None:
    house.source.topics["u"] = TopicDescription("u", 1)
    house.source.forbidden = {"u", "v"}
    house.create(a_datastream("orders", "^(t|u)$"), a_datastream("others", "t|w", naming=TopicNaming("o.*")))
    house.tick()
    assert re.search(r"\bsource\b.*\bu\b.*TOPIC_AUTHORIZATION_FAILED", house.problem("orders"))
    assert house.ill() == ["datastream orders"]
    assert house.planned() == {"orders:t-0", "orders:t-1", "others:t-0", "others:t-1"}
    asked = house.source.asked_by_name
    house.tick(3)
    assert house.source.asked_by_name == asked, "missing topics are not described at every tick"
    house.source.forbidden = set()
    house.tick(2)
    assert house.ill() == []
    assert "orders:u-0" in house.planned()
