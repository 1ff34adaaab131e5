"""Test the snapshot of the service for the leader's tick and for a preview without side effects."""

from __future__ import annotations

import gc
import math
import re
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.placement.planners import choose_planner
from headrace.settings import HeadraceSettings
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.routes.routes import RouteVerdict
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.errors import LoadUnavailable, Unreachable
from mirror.instance.background_calls import LoadsPending
from mirror.instance.fleet_planner import FleetPlanner, Planning
from mirror.instance.loads.expectation import HOUR_MS, Expectation
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.providers import LoadProviders, ProviderInUse
from mirror.model.capacity.freeze import read_freeze
from mirror.model.capacity.quiet_window import QuietWindow
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import LoadReport, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, Plan, PlanningRequest
from mirror.model.topics import TopicDescription, TopicNaming, TopicPartition, TopicSelection
from mirror.ports import LoadProvider, Planner
from tests.builders import DESTINATION, SOURCE, SOURCE_LOADS, a_datastream, an_instance
from tests.fakes.clock import ManualClock
from tests.fakes.instances import LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin


class Loads:
    """A load provider that reports 60 bytes/s for every partition; `asked`: clusters of the requests."""

    def __init__(self) -> None:
        self.asked: list[ClusterRef] = []
        self.topics: set[str] = set()

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        self.asked.append(cluster)
        self.topics.update(one.topic for one in partitions)
        return LoadReport({key: PartitionLoad(60.0) for key in partitions}, "test")


class UnavailableProvider:
    """A load provider that does not respond."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        raise LoadUnavailable("nobody knows")


class RecordingPlanner:
    """A planner that records its requests."""

    def __init__(self, planner: Planner | None = None) -> None:
        self._planner = planner or SimplePlanner()
        self.requests: list[PlanningRequest] = []

    def plan(self, request: PlanningRequest) -> GroupPlan:
        self.requests.append(request)
        return self._planner.plan(request)


def a_rig(
    provider: LoadProvider | None = None, planner: RecordingPlanner | None = None
) -> tuple[LeaderRig, FakeZooKeeper, Loads, FakeTopicAdmin]:
    server, loads, source = FakeZooKeeper(), Loads(), FakeTopicAdmin(t=2)
    clusters = {SOURCE: source, DESTINATION: FakeTopicAdmin()}
    rig = LeaderRig(
        server.session(), clusters, provider=provider or loads, planner=planner, refresh_seconds=math.inf
    )
    rig.leader.joined(Membership(server.session()).join(an_instance("one")))
    rig.stores.definitions.create(a_datastream("orders", "t"))
    return rig, server, loads, source


def a_request(full: bool = True) -> RebalanceRequest:
    return RebalanceRequest(GroupName("orders"), full, "me", "to see", 1)


def test_loads_are_asked_for_only_when_something_is_planned() -> None:
    rig, _, loads, source = a_rig()
    source.create(TopicDescription("not-mirrored", 1))
    rig.leader.tick()
    assert (loads.asked, loads.topics) == ([SOURCE], {"t"})
    for _ in range(3):
        rig.clock.advance(10)
        rig.leader.tick()
    assert loads.asked == [SOURCE]


def test_what_found_no_room_is_planned_again_when_something_has_changed() -> None:
    planner = RecordingPlanner(choose_planner(HeadraceSettings(clusters={})))
    rig, server, loads, source = a_rig(planner=planner)
    definitions = rig.stores.definitions

    def change(**more: object) -> None:
        stored = definitions.get(DatastreamName("orders"))
        definitions.replace(stored, replace(stored.datastream, **more))  # type: ignore[arg-type]

    def plannings() -> tuple[int, int]:
        """Return the number of plannings in the next ticks, and of partitions with a task after them."""
        before = len(planner.requests)
        for _ in range(3):
            rig.clock.advance(5)
            rig.leader.tick()
        return len(planner.requests) - before, len(PlanStore(server.session(), "r").read().plan.owners)

    change(limits=TaskLimits(max_tasks=1, max_partitions_per_task=1))
    assert plannings() == (1, 1)
    rig.fleet_planner.preview(a_request())
    assert plannings() == (0, 1)
    asked = len(loads.asked)
    source.grow("t", 3)
    assert plannings() == (1, 1)
    change(limits=TaskLimits(max_tasks=2, max_partitions_per_task=1))
    assert plannings() == (1, 2)
    rig.stores.requests.add(a_request(full=False))
    assert plannings() == (1, 2)
    assert len(loads.asked) == asked + 3, "loads are requested for a planning only"
    change(selection=TopicSelection("nothing"))
    assert plannings() == (1, 0)


def test_a_preview_tells_what_a_request_would_do_and_does_nothing() -> None:
    rig, server, _, source = a_rig()
    rig.leader.tick()
    source.create(TopicDescription("u", 1))
    before = server.dump()
    plans = PlanStore(server.session(), "r")
    epoch = plans.read().plan.epoch
    preview = rig.fleet_planner.preview(a_request())
    assert preview.group_plans["orders"].required_tasks == 2  # type: ignore[index]
    assert server.dump() == before
    rig.stores.requests.add(a_request())
    rig.leader.tick()
    plan = plans.read().plan
    assert (preview.plan is None) == (plan.epoch == epoch)
    assert preview.plan is None or preview.plan.tasks == plan.tasks


def test_every_interval_loads_are_observed_and_after_three_times_planned_by() -> None:
    planner = RecordingPlanner()
    rig, _, loads, _ = a_rig(planner=planner)
    rig.leader.tick()
    assert [len(request.recent) for request in planner.requests] == [0]
    for times_observed in (1, 2):
        rig.clock.advance(600)
        rig.leader.tick()
        assert (len(loads.asked), len(planner.requests)) == (1 + times_observed, 1)
    rig.clock.advance(600)
    rig.leader.tick()
    due = planner.requests[-1]
    assert (len(planner.requests), len(due.recent), len(loads.asked)) == (2, 2, 4)
    assert (due.full, due.rebalance) == (False, False)
    assert due.recent[0][TopicPartition("t", 1)].bytes_per_second == 60.0
    rig.clock.advance(1)
    rig.leader.tick()
    assert len(planner.requests) == 2


def test_a_request_is_planned_with_what_was_observed() -> None:
    planner = RecordingPlanner()
    rig, _, _, _ = a_rig(planner=planner)
    for _ in range(3):
        rig.leader.tick()
        rig.clock.advance(600)
    rig.stores.requests.add(a_request(full=False))
    rig.leader.tick()
    assert (planner.requests[-1].rebalance, len(planner.requests[-1].recent)) == (True, 2)


def test_a_provider_that_is_away_is_reported_with_the_plan_and_nothing_is_planned_when_due() -> None:
    planner = RecordingPlanner()
    rig, _, _, _ = a_rig(UnavailableProvider(), planner)
    rig.leader.tick()
    (event,) = [event for event in rig.told if event.datastream and not event.topic]
    assert re.match(r"1 .* 2 partitions\b.*: nobody knows$", event.sentence)
    for _ in range(4):
        rig.clock.advance(600)
        rig.leader.tick()
    assert len(planner.requests) == 1


class Slow(Loads):
    """A load provider that fails at every second request."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        report = super().loads(cluster, partitions)
        if len(self.asked) % 2 == 0:
            raise LoadUnavailable("no answer yet")
        return report


def test_a_provider_that_is_slow_is_asked_again_in_the_next_tick() -> None:
    planner, slow = RecordingPlanner(), Slow()
    rig, _, _, _ = a_rig(slow, planner)
    rig.leader.tick()
    for round_number in (1, 2, 3):
        rig.clock.advance(600)
        rig.leader.tick()
        assert (len(slow.asked), len(planner.requests)) == (2 * round_number, 1)
        rig.clock.advance(1)
        rig.leader.tick()
        assert len(slow.asked) == 2 * round_number + 1
    assert [len(request.recent) for request in planner.requests] == [0, 2]


class Late(Loads):
    """A load provider that has a pending request while `is_late` is set."""

    is_late = False

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        if self.is_late:
            raise LoadsPending("no answer yet")
        return super().loads(cluster, partitions)


CLOCKS = [-300_000, 0, 300_000]
"""Differences between the clock of the instance that receives a request and the clock of the leader."""


def a_rig_whose_loads_are_late(clock_ahead_ms: int = 0) -> tuple[LeaderRig, Late]:
    late = Late()
    rig, _, _, _ = a_rig(late)
    rig.leader.tick()
    late.is_late = True
    requested_ms = rig.clock.now_ms() + clock_ahead_ms
    rig.stores.requests.add(replace(a_request(full=False), requested_ms=requested_ms))
    rig.leader.tick()
    return rig, late


@pytest.mark.parametrize("clock_ahead_ms", CLOCKS)
def test_a_request_waits_for_the_loads_that_are_on_their_way(clock_ahead_ms: int) -> None:
    rig, late = a_rig_whose_loads_are_late(clock_ahead_ms)
    assert len(rig.stores.requests.pending()) == 1
    late.is_late = False
    rig.leader.tick()
    assert rig.stores.requests.pending() == ()


@pytest.mark.parametrize("clock_ahead_ms", CLOCKS)
def test_a_request_does_not_wait_for_ever(clock_ahead_ms: int) -> None:
    rig, _ = a_rig_whose_loads_are_late(clock_ahead_ms)
    rig.clock.advance(31)
    rig.leader.tick()
    assert rig.stores.requests.pending() == ()


class Uneven(Loads):
    """A load provider that reports 90 bytes/s for every partition until it fails."""

    failure: LoadUnavailable | None = None

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        if self.failure is not None:
            raise self.failure
        return LoadReport({key: PartitionLoad(90.0) for key in partitions}, "test")


@pytest.mark.parametrize("failure", [LoadsPending("frozen"), LoadUnavailable("dead")], ids=str)
def test_without_an_answer_the_last_known_loads_are_planned_by_and_their_age_is_said(
    failure: LoadUnavailable,
) -> None:
    uneven, planner = Uneven(), RecordingPlanner()
    rig, _, _, _ = a_rig(uneven, planner)
    rig.leader.tick()
    uneven.failure = failure
    rig.clock.advance(15)
    decision = rig.fleet_planner.preview(a_request())
    assert {load.bytes_per_second for load in planner.requests[-1].loads.values()} == {90.0}
    assert decision.group_plans["orders"].required_tasks == 2  # type: ignore[index]
    (note,) = [one for one in decision.group_plans["orders"].reasons if "last known" in one]  # type: ignore[index]
    assert "15 s old" in note
    assert str(failure) in note


def test_without_any_loads_what_is_placed_stays_and_the_plan_says_so() -> None:
    planner = RecordingPlanner()
    rig, server, _, _ = a_rig(UnavailableProvider(), planner)
    rig.leader.tick()
    before = PlanStore(server.session(), "r").read().plan.tasks
    rig.stores.requests.add(a_request(full=True))
    decision = rig.fleet_planner.preview(a_request(full=True))
    rig.leader.tick()
    assert PlanStore(server.session(), "r").read().plan.tasks == before
    assert not any(request.full or request.rebalance for request in planner.requests)
    assert "loads are unknown" in "; ".join(decision.group_plans["orders"].reasons)  # type: ignore[index]


BY_COUNT = {"headrace-placement": "provider none"}
UNKNOWN = "planned by count: placement.load_provider is none"


def test_a_datastream_is_planned_by_count_where_it_chooses_that_and_others_by_load() -> None:
    planner = RecordingPlanner()
    rig, server, loads, source = a_rig(planner=planner)
    source.create(TopicDescription("u", 4))
    rig.stores.definitions.create(a_datastream("counted", "u", metadata=BY_COUNT))
    rig.leader.tick()
    requests = {one.group: one for one in planner.requests}
    assert (len(requests["orders"].loads), requests["counted"].loads) == (6, {})  # type: ignore[index]
    tasks = PlanStore(server.session(), "r").read().plan.task_counts
    assert tasks == {"orders": 2, "counted": 1}, "4 partitions of 60 bytes/s would need 3 tasks"
    assert "u" in loads.topics, "its loads are requested nevertheless"
    for _ in range(3):
        rig.clock.advance(600)
        rig.leader.tick()
    by_group = {one.group: one for one in planner.requests[2:]}
    assert (len(by_group["orders"].recent), by_group["counted"].recent) == (2, ())  # type: ignore[index]
    assert PlanStore(server.session(), "r").read().plan.task_counts == tasks
    asked = RebalanceRequest(GroupName("counted"), True, "me", "to see", 1)
    decision = rig.fleet_planner.preview(asked)
    assert decision.plan is None
    assert not decision.are_loads_known
    assert UNKNOWN in decision.group_plans["counted"].reasons  # type: ignore[index]


def test_nobody_asks_for_loads_of_a_cluster_whose_datastreams_are_planned_by_count() -> None:
    rig, _, loads, _ = a_rig()
    stored = rig.stores.definitions.get(DatastreamName("orders"))
    metadata = {**stored.datastream.metadata, **BY_COUNT}
    rig.stores.definitions.replace(stored, replace(stored.datastream, metadata=metadata))
    rig.leader.tick()
    assert loads.asked == []


def test_a_request_for_tasks_by_count_waits_for_no_loads() -> None:
    late = Late()
    late.is_late = True
    rig, _, _, source = a_rig(late)
    source.create(TopicDescription("u", 4))
    rig.stores.definitions.create(a_datastream("counted", "u", metadata=BY_COUNT))
    rig.leader.tick()
    asked = RebalanceRequest(GroupName("counted"), False, "me", "to see", rig.clock.now_ms())
    rig.stores.requests.add(asked)
    rig.leader.tick()
    assert rig.stores.requests.pending() == ()


def test_what_is_expected_of_others_is_planned_by_beside_tasks_by_count() -> None:
    planner = RecordingPlanner()
    rig, _, _, source = a_rig(planner=planner)
    source.create(TopicDescription("u", 4))
    rig.stores.definitions.create(a_datastream("the last one", "u", metadata=BY_COUNT))
    rig.leader.tick()
    places = [TopicPartition("t", number) for number in range(2)]
    rig.memory.note(SOURCE_LOADS, LoadReport(dict.fromkeys(places, PartitionLoad(60.0)), "test"), 0.0)
    hour = rig.clock.now_ms() // HOUR_MS * HOUR_MS
    coming, totals = {hour: dict.fromkeys(places, PartitionLoad(90.0))}, {GroupName("orders"): {hour: 180.0}}
    rig.memory.expected.put(SOURCE_LOADS, Expectation(coming, totals=totals))
    for group in ("orders", "the last one"):
        rig.stores.requests.add(replace(a_request(), group=GroupName(group)))
    rig.clock.advance(1)
    rig.leader.tick()
    by_load, by_count = planner.requests[2:]
    assert {by_load.loads[one].bytes_per_second for one in places} == {90.0}
    rates = [{one.bytes_per_second for one in seen.values()} for seen in by_load.recent]
    assert rates == [{90.0}, {90.0}]
    assert (by_count.group, by_count.loads, by_count.recent) == ("the last one", {}, ())


def the_only(provider: LoadProvider) -> LoadProviders:
    """Return providers with a single one, whatever datastreams choose."""
    loads = ProviderInUse(provider)
    return LoadProviders(loads, "test", lambda _: loads, ManualClock())


def test_a_preview_knows_what_the_leader_has_observed() -> None:
    memory = LoadMemory()
    planning = Planning(SimplePlanner(), the_only(Loads()), TaskCapacity(100), memory=memory)
    rig, _, _, _ = a_rig()
    memory.note(SOURCE_LOADS, LoadReport({TopicPartition("t", 0): PartitionLoad(5.0)}, "test"), 0.0)
    asked = RecordingPlanner()
    planning = replace(planning, planner=asked)
    fleet_planner = FleetPlanner(rig.stores, planning, rig.topic_discovery, rig.clock, rig.watch.check_cached)
    rig.leader.tick()
    rig.clock.advance(1)
    fleet_planner.preview(a_request())
    assert len(asked.requests[0].recent) == 1


def test_freezes_and_waiting_for_quiet_hours_are_known_to_the_planner() -> None:
    rig, _, _, _ = a_rig()
    asked, memory = RecordingPlanner(), LoadMemory()
    night = read_freeze("22:00 to 23:00")
    planning = Planning(asked, the_only(Loads()), TaskCapacity(100), memory=memory, freezes=(night,))
    fleet_planner = FleetPlanner(rig.stores, planning, rig.topic_discovery, rig.clock, rig.watch.check_cached)
    rig.leader.tick()

    def calm_after(hours: float) -> str:
        rig.clock.advance(hours * 3_600)
        fleet_planner.preview(a_request())
        return asked.requests[-1].calm

    assert "22:00 to 23:00" in calm_after(0)
    assert calm_after(1) == ""
    memory.expected.put_quiet({GroupName("orders"): QuietWindow((1,) * 7, 4)})
    assert "01:00 to 05:00 UTC" in calm_after(0)
    assert calm_after(2) == ""


def test_nothing_is_kept_of_former_dry_runs_and_deleted_datastreams() -> None:
    rig, server, _, _ = a_rig()
    gone = a_datastream("gone", "t", naming=TopicNaming("gone.*"))
    rig.stores.definitions.create(gone)
    rig.leader.tick()
    discovery = rig.topic_discovery
    kept = list[weakref.ref[TopicSelection]]()
    assert gone.name in discovery.preparations.latest
    for number in range(3):
        tried = a_datastream(f"d{number}", f"t|t{number}", naming=TopicNaming(f"{number}.*"))
        assert rig.fleet_planner.preview_update([tried]).starting
        kept.append(weakref.ref(tried.selection))
    del tried
    stored = rig.stores.definitions.get(gone.name)
    rig.stores.definitions.replace(stored, replace(gone, status=DatastreamStatus.DELETING))
    for _ in range(3):
        rig.clock.advance(10)
        rig.leader.tick()
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert gone.name not in discovery.preparations.latest
    assert rig.stores.definitions.names() == ("orders",)
    plan = PlanStore(server.session(), "r").read().plan
    loads = rig.fleet_planner.fleet_state((a_datastream("orders", "t"),), plan, {}).task_loads
    assert loads.keys() == {placement.task for placement in plan.tasks}


def test_dry_runs_take_turns_also_without_a_leader() -> None:
    rig, _, _, _ = a_rig()
    rig.leader.tick()
    alone = rig.fleet_planner.with_stored_loads()
    judge, entered, seen = rig.fleet_planner.judgement, threading.Event(), list[bool]()

    def look(datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        entered.set()
        return judge(datastreams, plan)

    def look_first(datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        other.start()
        seen.append(entered.wait(0.05))
        return judge(datastreams, plan)

    alone.judgement, rig.fleet_planner.judgement = look, look_first
    other = threading.Thread(target=alone.preview, args=(a_request(),))
    rig.fleet_planner.preview(a_request())
    other.join()
    assert (seen, entered.is_set()) == ([False], True)


def test_a_dry_run_asks_only_the_clusters_of_its_group_and_names_the_one_that_is_away() -> None:
    rig, _, _, source = a_rig()
    rig.leader.tick()
    away, elsewhere = FakeTopicAdmin(), ClusterRef("elsewhere")
    away.failure = Unreachable("gone fishing")
    rig.clusters[elsewhere] = away
    rig.stores.definitions.create(a_datastream("far", "t", source=elsewhere))
    rig.clock.advance(10)
    rig.fleet_planner.judgement = rig.watch.check_cached
    asked = RebalanceRequest(GroupName("orders"), True, "me", "to see", 1)
    decision = rig.fleet_planner.preview(asked)
    assert away.asked == 0
    assert decision.problems == {}
    if decision.plan is not None:
        assert {one.group for one in decision.plan.tasks} == {"orders"}
    with pytest.raises(Unreachable, match="gone fishing"):
        rig.fleet_planner.preview(replace(asked, group=GroupName("far")))
    assert away.asked == 1
    assert source.asked > 0
