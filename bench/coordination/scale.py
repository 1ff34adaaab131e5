"""500 datastreams, 200,000 partitions, 2,000 tasks, 50 instances: time to publish a plan, CPU of each change.

The runs alternate between ZooKeeper and the store on Kafka, both real; `RUNS` (1) of each, `BENCH_CASES`
chooses. Cluster metadata is simulated. The instances are simulated in a second process, so that they compete
with the leader for the processors only; in a real fleet, they have their own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from assigner.planner import LoadPlanner
from bench.mirror.rig.clusters import chosen
from headrace.process.interpreter import collect_seldom
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.reconcile import lane_specs
from mirror.coordination.stores import znodes
from mirror.coordination.stores.cluster_ids import BoundClusters, ClusterIds
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.coordination.stores.problems import ProblemStore, TroubleStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.instance.discovery.preparation import TopicClaims, TopicRules
from mirror.instance.discovery.route_watch import RouteWatch
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.event_publisher import EventPublisher
from mirror.instance.fleet_planner import FleetPlanner, LeaderStores, Planning
from mirror.instance.health import Health
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.providers import LoadProviders, ProviderInUse
from mirror.instance.loads.store import ObservationStore
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, InstanceName
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.plan import Plan
from mirror.model.topics import TopicDescription, TopicSelection
from stack.process.parallel import for_each
from stack.process.wait import wait_until
from stack.server import Server
from tests.coordination_stores import KafkaStore, NewSession, StoreServers, ZooKeeperStore, kafka_session
from tests.fakes.instances import AtOnce
from tests.fakes.topic_admin import FakeTopicAdmin

DATASTREAMS, TOPICS_EACH, PARTITIONS_EACH, TASKS_EACH, INSTANCES = 500, 20, 20, 4, 50
_SESSION_SECONDS, _REST_SECONDS, _PATIENCE_SECONDS = 30.0, 30.0, 60.0
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


class _TimedFleetPlanner(FleetPlanner):
    """View of the clusters that measures how long its last decision took."""

    wall_seconds = 0.0

    def decide(self, fleet: FleetState) -> Decision:
        began = time.perf_counter()
        try:
            return super().decide(fleet)
        finally:
            self.wall_seconds = time.perf_counter() - began


class _TimedPlans(PlanStore):
    """Plan store that measures how long its last publication took."""

    wall_seconds = 0.0

    def publish(self, plan: Plan, previous: StoredPlan) -> StoredPlan:
        began = time.perf_counter()
        try:
            return super().publish(plan, previous)
        finally:
            self.wall_seconds = time.perf_counter() - began


class _Fleet:
    """Sessions in a second process that simulate the instances."""

    def __init__(self, new_session: NewSession) -> None:
        self._sessions = []
        self._known = dict.fromkeys(range(INSTANCES), NO_PLAN)
        for _ in range(INSTANCES):
            session = new_session(_SESSION_SECONDS)
            session.start()
            self._sessions.append(session)
        self.members = [
            Membership(session).join(LiveInstance(InstanceName(f"i{n:02}"), 0, "host", n, "h:1"))
            for n, session in enumerate(self._sessions)
        ]

    def read_by_all(self, epoch: int) -> float:
        """Read the plan of an epoch on all instances, as soon as it has arrived; return the seconds."""
        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            deque(pool.map(partial(self._read, epoch), range(INSTANCES)), 0)
        seconds = time.perf_counter() - began
        assert self._lanes() == DATASTREAMS * TOPICS_EACH * PARTITIONS_EACH
        return seconds

    def _lanes(self) -> int:
        """Return the number of lanes that the instances derive from their plans."""
        datastreams = tuple(one.datastream for one in DefinitionStore(self._sessions[0]).all().readable)
        return sum(
            len(lane_specs(self._known[number].plan, member.name, datastreams).specs)
            for number, member in enumerate(self.members)
        )

    def _read(self, epoch: int, number: int) -> None:
        """Read the changes of the plan, as a follower does."""
        plans, name = PlanStore(self._sessions[number], "reader"), self.members[number].name
        while self._known[number].plan.epoch != epoch:
            changed = threading.Event()
            self._known[number] = plans.read_for(name, self._known[number], changed.set)
            if self._known[number].plan.epoch != epoch:
                changed.wait(_PATIENCE_SECONDS)

    def serve(self, orders: Connection) -> None:
        """Follow commands from the pipe until it is closed: an epoch to read, or None to lose an instance."""
        orders.send(self.members)
        with suppress(EOFError):
            while True:
                epoch = orders.recv()
                if epoch is None:
                    self._sessions[-1].stop()
                orders.send(self.read_by_all(epoch) if epoch is not None else 0.0)
        for session in self._sessions:
            session.stop()


def _serve_fleet(new_session: NewSession, orders: Connection) -> None:
    collect_seldom()  # as an instance does
    set_threshold("error")
    _Fleet(new_session).serve(orders)


class _Rig:
    """Leader with its session, and the process that simulates the other instances."""

    def __init__(self, store: StoreServers, exit_stack: ExitStack) -> None:
        self.seconds: dict[str, float] = {}
        """Times to compare between stores, by label."""
        own = store.session(_SESSION_SECONDS)
        own.start()
        exit_stack.callback(own.stop)
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
        self.fleet_planner = _TimedFleetPlanner(stores, planning, topic_discovery, clock, watch.check)
        self.leader = Leader(
            self.fleet_planner,
            EventPublisher(EventLog(own), lambda _: None),
            clock,
            Health(),
            threading.Event(),
            1.0,
        )
        spawn = multiprocessing.get_context("spawn")
        self._fleet, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve_fleet, args=(store.session, theirs))
        process.start()
        theirs.close()
        exit_stack.callback(process.join)
        exit_stack.callback(self._fleet.close)
        self.leader.joined(self._fleet.recv()[0])

    def tick(self, label: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        sentence = self.leader.tick()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"  {label:44} {cpu:7.2f} {wall:7.2f}   {sentence[:90]}", flush=True)

    def first_plan(self) -> None:
        """Plan all partitions for the first time, up to the point where every instance has read its part."""
        self.tick("first plan, with all datastreams new")
        parts = {
            "compute the plan": self.fleet_planner.wall_seconds,
            "write it to the store": self.plans.wall_seconds,
            f"read it on all {INSTANCES} instances": self.read_by_all(),
        }
        self.seconds["first plan written and read"] = sum(list(parts.values())[1:])
        for label, seconds in parts.items():
            print(f"    {label:42} {'':7} {seconds:7.2f}")
        print(f"    {'total':42} {'':7} {sum(parts.values()):7.2f}   (required: < 5)")

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
        print(f"  {'plan that moves every task: write it':44} {cpu:7.2f} {wall:7.2f}")
        read = self.read_by_all()
        self.seconds["moved plan written and read"] = wall + read
        print(f"    {f'read it on all {INSTANCES} instances':42} {'':7} {read:7.2f}")

    def read_by_all(self) -> float:
        """Return the seconds until all instances have read the plan."""
        self._fleet.send(self.plans.read().plan.epoch)
        seconds: float = self._fleet.recv()
        return seconds

    def lose_instance(self) -> None:
        """End the session of an instance."""
        self._fleet.send(None)
        self._fleet.recv()


def _run(store: StoreServers) -> Mapping[str, float]:
    """Plan an empty service, then apply one change after the other; return the times to compare."""
    with ExitStack() as exit_stack:
        exit_stack.callback(for_each, store.servers.values(), Server.kill)
        for_each(store.servers.values(), Server.start)
        rig = _Rig(store, exit_stack)
        for number in range(DATASTREAMS):
            rig.definitions.create(_datastream(number))
        print(f"\n{store.title}")
        print(f"  {'work of the leader':44} {'CPU s':>7} {'wall s':>7}")
        rig.first_plan()
        rig.move_everything()
        rig.tick("read the whole plan of another leader")
        rig.tick("no change")
        rig.source.grow("team-007-03", PARTITIONS_EACH + 1)
        rig.tick("a topic got one more partition")
        rig.source.create(TopicDescription("team-008-99", 5))
        rig.tick("a topic was created")
        rig.definitions.create(_datastream(DATASTREAMS - 1 + 1))
        rig.tick("a datastream was created")
        rig.lose_instance()
        rig.tick("an instance left")
        print("  (required: one event < 1 s of CPU)")
        if isinstance(store, KafkaStore):
            _print_sizes(store)
        return rig.seconds


def _replica_bytes(address: str) -> int:
    """Return the memory of a session, without the code that it shares with the instance."""
    process = psutil.Process()
    session = kafka_session(address, _SESSION_SECONDS)
    before = process.memory_info().rss
    session.start()
    gc.collect()
    after = process.memory_info().rss
    session.stop()
    return after - before


def _zookeeper(folder: Path) -> StoreServers:
    return ZooKeeperStore(folder, {"maxClientCnxns": 0})


def _kafka(folder: Path) -> StoreServers:
    return KafkaStore(folder, 1)


def _print_sizes(store: KafkaStore) -> None:
    """Print the memory of another replica of the store, and the growth of the log while nothing happens."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        grown_by = pool.apply(_replica_bytes, (store.cluster.address,))
    print(f"  {'memory of a replica, MiB':44} {'':7} {grown_by / 2**20:7.1f}")
    began, size = time.monotonic(), store.log_bytes()
    wait_until(lambda: time.monotonic() - began > _REST_SECONDS, 2 * _REST_SECONDS, "the pause is over")
    grown = (store.log_bytes() - size) / (time.monotonic() - began)
    label = f"log of {INSTANCES} instances without changes, MB per hour"
    print(f"  {label:44} {'':7} {grown * 3600 / 1e6:7.1f}   (session timeout {_SESSION_SECONDS:g} s)")


def main() -> None:
    """Run the cases alternately, and print the medians side by side."""
    collect_seldom()
    set_threshold("error")
    print(f"{DATASTREAMS} datastreams, {DATASTREAMS * TOPICS_EACH} topics, {INSTANCES} instances")
    found: dict[str, list[Mapping[str, float]]] = {}
    for _ in range(int(os.environ.get("RUNS", "1"))):
        for name in chosen("zookeeper", "kafka"):
            with tempfile.TemporaryDirectory() as folder:
                store = {"zookeeper": _zookeeper, "kafka": _kafka}[name](Path(folder))
                found.setdefault(name, []).append(_run(store))
    print(f"\n  {'seconds, medians':44} {' '.join(f'{name:>10}' for name in found)}")
    for label in next(iter(found.values()))[0]:
        medians = [statistics.median(run[label] for run in runs) for runs in found.values()]
        ratio = f"   x {medians[-1] / medians[0]:.2f} (required: <= 1.5)" if len(medians) > 1 else ""
        print(f"  {label:44} {' '.join(f'{median:10.2f}' for median in medians)}{ratio}")
