"""500 datastreams, 200,000 partitions, 2,000 tasks, 50 instances: time to publish a plan, CPU per event.

ZooKeeper is real. Cluster metadata and instances are simulated, so their cost is not measured.
"""

from __future__ import annotations

import logging
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import structlog

from assigner.planner import LoadPlanner
from headrace.process.interpreter import collect_seldom
from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.system_clock import SystemClock
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.beginnings.store import FirstPartitionsStore
from mirror.coordination.operations.outcome_store import OutcomeStore
from mirror.coordination.planning import Decision, World
from mirror.coordination.proposed.proposal_store import ProposalStore
from mirror.coordination.reconcile import lane_specs
from mirror.coordination.stores import znodes
from mirror.coordination.stores.cluster_ids import BoundClusters, ClusterIds
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.made_topics import MadeTopics
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.plan_store import PlanStore, StoredPlan
from mirror.coordination.stores.problems import ProblemStore, TroubleStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.instance.discovery.claims import TopicClaims
from mirror.instance.discovery.preparation import TopicRules
from mirror.instance.discovery.route_watch import RouteWatch
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.health import Health
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.providers import LoadProviders, ProviderInUse
from mirror.instance.loads.store import ObservationStore
from mirror.instance.world_view import LeaderStores, Planning, WorldView
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, InstanceName
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.plan import Plan
from mirror.model.topics import TopicDescription, TopicSelection
from stack.ports import free_ports
from stack.zookeeper import ZooKeeperServer
from tests.fakes.instances import AtOnce
from tests.fakes.topic_admin import FakeTopicAdmin

DATASTREAMS, TOPICS_EACH, PARTITIONS_EACH, TASKS_EACH, INSTANCES = 500, 20, 20, 4, 50
_SOURCE, _DESTINATION = ClusterRef("source"), ClusterRef("destination")


def _datastream(number: int) -> Datastream:
    return Datastream(
        name=DatastreamName(f"stream-{number:03}"),
        source=_SOURCE,
        selection=TopicSelection(f"team-{number:03}-.*"),
        destination=_DESTINATION,
        limits=TaskLimits(min_tasks=TASKS_EACH),
        metadata={"owner": "bench"},
    )


class _TimedWorldView(WorldView):
    """World view that times its last decision."""

    wall_seconds = 0.0

    def decide(self, world: World) -> Decision:
        began = time.perf_counter()
        try:
            return super().decide(world)
        finally:
            self.wall_seconds = time.perf_counter() - began


class _TimedPlans(PlanStore):
    """Plan store that times its last publication."""

    wall_seconds = 0.0

    def publish(self, plan: Plan, previous: StoredPlan) -> StoredPlan:
        began = time.perf_counter()
        try:
            return super().publish(plan, previous)
        finally:
            self.wall_seconds = time.perf_counter() - began


class _World:
    """Leader with its session, and sessions that simulate the other instances."""

    def __init__(self, address: str, exit_stack: ExitStack) -> None:
        self.sessions = []
        for _ in range(INSTANCES + 1):
            session = ZooKeeper(ZooKeeperSettings(servers=address, session_timeout_seconds=30))
            session.start()
            exit_stack.callback(session.stop)
            self.sessions.append(session)
        own = self.sessions[0]
        topics = {
            f"team-{number:03}-{topic:02}": PARTITIONS_EACH
            for number in range(DATASTREAMS)
            for topic in range(TOPICS_EACH)
        }
        self.source, self.destination = FakeTopicAdmin(**topics), FakeTopicAdmin(**topics)
        self.definitions = DefinitionStore(own)
        self.plans = _TimedPlans(own, "bench")
        stores = LeaderStores(
            Membership(own),
            self.definitions,
            self.plans,
            RequestQueue(own),
            ProblemStore(own),
            TroubleStore(own),
            ObservationStore(own),
            AssessmentStore(own),
            ProposalStore(own),
            OutcomeStore(own),
            FirstPartitionsStore(own),
        )
        admins = {_SOURCE: self.source, _DESTINATION: self.destination}
        clock = SystemClock()
        rules = TopicRules(
            BoundClusters(own),
            TopicClaims(MadeTopics(own), MadeTopics(own, znodes.ADOPTED)),
            most_partitions=1000,
        )
        topic_discovery = TopicDiscovery(lambda cluster: admins[cluster], clock, 0.001, AtOnce(), rules)
        watch = RouteWatch(topic_discovery, ClusterIds(own), rules.own)
        loads = ProviderInUse(MeasuredLoads(own))
        planning = Planning(
            LoadPlanner(), LoadProviders(loads, "self", lambda _: loads, clock), TaskCapacity(10 * 2**20)
        )
        self.world_view = _TimedWorldView(stores, planning, topic_discovery, clock, watch.look)
        self.leader = Leader(self.world_view, EventLog(own), lambda _: None, clock, Health(), 1.0)
        self.members = [
            Membership(session).join(LiveInstance(InstanceName(f"i{n:02}"), 0, "host", n, "h:1"))
            for n, session in enumerate(self.sessions[1:])
        ]
        self.leader.joined(self.members[0])

    def tick(self, label: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        sentence = self.leader.tick()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"  {label:44} {cpu:7.2f} {wall:7.2f}   {sentence[:90]}", flush=True)

    def first_plan(self) -> None:
        """Plan all partitions for the first time, up to the point where every instance has read its part."""
        self.tick("all datastreams are new: the first plan")
        parts = {
            "snapshot -> plan": self.world_view.wall_seconds,
            "written": self.plans.wall_seconds,
            f"read by all {INSTANCES}": self.read_by_all(),
        }
        for label, seconds in parts.items():
            print(f"    {label:42} {'':7} {seconds:7.2f}")
        print(f"    {'together':42} {'':7} {sum(parts.values()):7.2f}   (required: < 5)")

    def move_everything(self) -> None:
        """Move every task to the next instance, so that all documents are rewritten and reread."""
        stored = self.plans.read()
        tasks = stored.plan.tasks
        homes = [task.instance for task in tasks]
        moved = tuple(
            replace(task, instance=home) for task, home in zip(tasks, homes[1:] + homes[:1], strict=True)
        )
        cpu, wall = time.process_time(), time.perf_counter()
        self.plans.publish(replace(stored.plan, epoch=Epoch(stored.plan.epoch + 1), tasks=moved), stored)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"  {'everything moved: the plan is written':44} {cpu:7.2f} {wall:7.2f}")
        print(f"    {f'and read by all {INSTANCES}':42} {'':7} {self.read_by_all():7.2f}")

    def read_by_all(self) -> float:
        """Read the plan on all instances and derive their lanes; return the seconds of the reads."""
        datastreams = tuple(one.datastream for one in self.definitions.all().readable)

        def read(number: int) -> Plan:
            return PlanStore(self.sessions[number + 1], "reader").read_for(self.members[number].name).plan

        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            plans = list(pool.map(read, range(INSTANCES)))
        seconds = time.perf_counter() - began
        lanes = sum(
            len(lane_specs(plan, member.name, datastreams).specs)
            for plan, member in zip(plans, self.members, strict=True)
        )
        assert lanes == len(self.source.topics) * PARTITIONS_EACH
        return seconds


def main() -> None:
    """Plan an empty service, then apply one event after the other."""
    collect_seldom()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with ExitStack() as exit_stack:
        folder = exit_stack.enter_context(tempfile.TemporaryDirectory())
        server = ZooKeeperServer("zookeeper", Path(folder), free_ports(1)[0], settings={"maxClientCnxns": 0})
        server.start()
        exit_stack.callback(server.stop)
        world = _World(server.address, exit_stack)
        for number in range(DATASTREAMS):
            world.definitions.create(_datastream(number))
        print(f"{DATASTREAMS} datastreams, {len(world.source.topics)} topics, {INSTANCES} instances")
        print(f"  {'leader':44} {'CPU s':>7} {'wall s':>7}")
        world.first_plan()
        world.move_everything()
        world.tick("another plan is found in force: read whole")
        world.tick("nothing happened")
        world.source.grow("team-007-03", PARTITIONS_EACH + 1)
        world.tick("a topic grew")
        world.source.create(TopicDescription("team-008-99", 5))
        world.tick("a topic was created")
        world.definitions.create(_datastream(DATASTREAMS - 1 + 1))
        world.tick("a datastream was created")
        world.sessions[-1].stop()
        world.tick("an instance went")
        print("  (required: one event < 1 s of CPU)")
