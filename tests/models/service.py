"""Simulation of a whole service in memory under seeded faults.

Sessions are suspended and lost, requests fail or lose their responses, instances freeze, are killed, shut
down cleanly and return, leaders stop in the middle of a plan, and datastreams, pauses and topics change.

Two instances never write one lane at the same time, even if one of them is frozen: the lease of its workers
expires before its session can. After the faults, every wanted partition is copied once, by the instance that
the plan names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

from mirror.coordination.outcome_store import OutcomeStore, superseded_by
from mirror.coordination.partition_selection import TopicMatching
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.plan_decision import groups_of
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.plan_store import PlanStore
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, RequestQueue
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import DatastreamStatus, PartitionPause
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.load import TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicNaming, TopicPartition
from tests.builders import DESTINATION, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import SESSION_TIMEOUT_SECONDS, FollowerRig, LeaderRig
from tests.fakes.node_store import FakeZooKeeper, Fault, Operation
from tests.fakes.topic_admin import FakeTopicAdmin

NAMES = ("one", "two", "three")


class Shuffling:
    """Planner that distributes the partitions of a full plan at random, so that lanes move back and forth."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return a plan of the group; a full plan distributes the partitions at random."""
        found = SimplePlanner().plan(request)
        if not request.full:
            return found
        tasks: dict[TaskName, set[TopicPartition]] = {task: set() for task in found.tasks}
        for partition in request.partitions:
            tasks[self._random.choice(sorted(tasks))].add(partition)
        return replace(found, tasks={task: frozenset(held) for task, held in tasks.items()})


class Node:
    """One instance: follower and leader on one session. The server ends the session by its own clock."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.world = world
        self.follower = FollowerRig(world.server, name, world.clock)
        self.follower.script = self._faults
        self.session = self.follower.session
        self.leader = LeaderRig(self.session, world.clusters, world.clock, Shuffling(world.random))
        self.follower.on_joined = self.leader.leader.joined
        self.is_frozen = False
        self.is_acting = False
        self.is_lost = False
        self.is_dead = False
        self.answered_at = world.clock.monotonic()

    def _faults(self, _: Operation) -> Fault | None:
        """Let another node act before some requests, and return a fault for some."""
        world, random = self.world, self.world.random
        if world.is_quiet:
            return None
        if random.random() < 0.12:
            random.choice(world.nodes).act()
        return Fault(after_effect=random.random() < 0.5) if random.random() < 0.01 else None

    def act(self) -> None:
        """Run one iteration of one of its loops, unless it is frozen or already in an iteration."""
        if self.is_frozen or self.is_acting or self.is_dead:
            return
        if self.session.is_up:
            self.answered_at = self.world.clock.monotonic()  # the client pings
        self.is_acting = True
        try:
            if self.world.random.random() < 0.6 or self.world.is_quiet:
                self.follower.run_loop()
            if self.world.random.random() < 0.4 or self.world.is_quiet:
                self.leader.leader._log_sentence(self.leader.leader._try_tick())
        finally:
            self.is_acting = False

    def expire_if_silent(self) -> None:
        """Expire the session on the server after the session timeout without contact."""
        if not self.is_lost and self.world.clock.monotonic() - self.answered_at >= SESSION_TIMEOUT_SECONDS:
            self.follower.lose()
            self.is_lost = True

    def kill(self) -> None:
        """Kill as by SIGKILL: the workers end too, and the session gets no more heartbeats."""
        self.follower.workers.kill_all()
        self.is_dead = True

    def ask_to_leave(self) -> None:
        """Request a shutdown, as by SIGTERM."""
        self.follower.workers.inbox.put("leave")

    @property
    def has_left(self) -> bool:
        """Return whether its tasks have moved, or no other instance could take them; then it ends."""
        return self.follower.follower.has_drained and not self.is_acting

    def leave(self) -> None:
        """Complete an orderly shutdown."""
        self.follower.workers.kill_all()
        self.is_dead = True
        if not self.is_lost:
            self.session.script = lambda _: None
            self.follower.lose()
            self.is_lost = True

    def come_back(self) -> None:
        """Reconnect: with the same session if it is alive, else with a new one."""
        self.is_frozen = False
        if self.is_lost:
            self.follower.renew()
            self.is_lost = False
        elif not self.session.is_up:
            self.follower.resume()
        self.answered_at = self.world.clock.monotonic()


class Simulation:
    """State of the service, and the events that may happen to it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_quiet = False
        self.clock = ManualClock()
        self.server = FakeZooKeeper()
        self.source = FakeTopicAdmin(t=4, u=2)
        self.clusters: dict[ClusterRef, FakeTopicAdmin] = {
            SOURCE: self.source,
            DESTINATION: FakeTopicAdmin(),
        }
        self.nodes = [Node(self, name) for name in NAMES]
        self.ghosts: list[Node] = []
        self.ending: set[str] = set()
        self.asked: list[str] = []
        self._numbers = count()
        self.admin = self.server.session()
        self.definitions = DefinitionStore(self.admin)
        limits = TaskLimits(min_tasks=3)
        for name, topics, naming in (("orders", "t", "*"), ("users", "t|u", "users.*")):
            one = a_datastream(name, topics, DatastreamStatus.INITIALIZING, limits=limits)
            self.definitions.create(replace(one, naming=TopicNaming(naming)))

    def step(self) -> None:
        """Run a random event, then check the invariant."""
        node = self.random.choice(self.nodes)
        events: list[tuple[int, Callable[[], None]]] = [
            (60, node.act),
            (12, node.follower.workers.drain),
            (12, lambda: self.clock.advance(self.random.choice([0.1, 0.5, 1.0, 3.0]))),
            (2, lambda: self._cut_off(node)),
            (6, node.come_back),
            (1, lambda: setattr(node, "is_frozen", True)),
            (1, lambda: self.source.grow("t", self.random.randint(4, 8))),
            (1, self._change_a_datastream),
            (1, self._pause_or_resume),
            (1, self._ask_for_a_move),
            (1, lambda: self._restart(node)),
            (1, node.ask_to_leave),
            (6, self._ask_for_a_rebalance),
        ]
        weights = [weight for weight, _ in events]
        self.random.choices([event for _, event in events], weights)[0]()
        self.keep_time()
        self.check()

    def keep_time(self) -> None:
        """Expire silent sessions, and restart instances that have completed their shutdown."""
        for one in [*self.nodes, *self.ghosts]:
            one.expire_if_silent()
        self.ghosts = [one for one in self.ghosts if not one.is_lost]
        for number, one in enumerate(self.nodes):
            if one.has_left:
                one.leave()
                self.nodes[number] = Node(self, NAMES[number])

    def _restart(self, node: Node) -> None:
        """Kill and restart at once: the old session lives on for a while without its instance."""
        if not node.is_acting:
            number = self.nodes.index(node)
            node.kill()
            self.ghosts.append(node)
            self.nodes[number] = Node(self, NAMES[number])

    def _pause_or_resume(self) -> None:
        """Add a pause, with or without an expiry, or remove it. Its unique reason identifies its end."""
        stored = self.random.choice(self.definitions.all().readable)
        if stored.datastream.pauses:
            self.ending -= {one.reason for one in stored.datastream.pauses.values()}
            pauses = {}
        else:
            number, reason = self.random.randrange(4), f"pause {next(self._numbers)};"
            until_ms = self.clock.now_ms() + self.random.choice([500, 5_000])
            is_brief = self.random.random() < 0.5
            self.ending |= {reason} if is_brief else set()
            pauses = {"t": PartitionPause(frozenset({number}), reason, 0, "", until_ms if is_brief else None)}
        self.definitions.replace(stored, replace(stored.datastream, pauses=pauses))

    def _ask_for_a_move(self) -> None:
        group = GroupName(self.random.choice(["orders", "users"]))
        moved = frozenset({TopicPartition("t", self.random.randrange(4))})
        wish = MoveRequest(group, moved, self.random.choice(NAMES), "the test", self.clock.now_ms())
        self.asked.append(RequestQueue(self.admin).add(wish, superseded_by(wish)))

    def _cut_off(self, node: Node) -> None:
        if node.session.is_up:
            node.follower.suspend()

    def _change_a_datastream(self) -> None:
        stored = self.random.choice(self.definitions.all().readable)
        datastream = stored.datastream
        status = self.random.choice([DatastreamStatus.READY, DatastreamStatus.PAUSED])
        self.definitions.replace(stored, replace(datastream, status=status))

    def _ask_for_a_rebalance(self) -> None:
        group = GroupName(self.random.choice(["orders", "users"]))
        wish = RebalanceRequest(group, True, "the test", "chance", self.clock.now_ms())
        self.asked.append(RequestQueue(self.admin).add(wish, superseded_by(wish)))

    def check(self) -> None:
        """Check that no lane has two writers."""
        every = [*self.nodes, *self.ghosts]
        writers = Counter(key for node in every for key in node.follower.workers.copying)
        twice = [key for key, count in writers.items() if count > 1]
        assert not twice, twice

    def calm_down(self) -> None:
        """Run all nodes without further faults."""
        self.is_quiet = True
        left = 18
        while left:
            for node in self.nodes:
                node.come_back()
                node.act()
                node.follower.workers.drain()
                self.check()
            before = list(self.nodes)
            self.keep_time()
            self.clock.advance(1.0)
            left = left - 1 if before == self.nodes else 18  # an instance that left has been restarted

    def wanted(self) -> set[LaneKey]:
        """Return the lanes that should be copied by now."""
        datastreams = [one.datastream for one in self.definitions.all().readable]
        topics = {SOURCE: {name: one.partitions for name, one in self.source.topics.items()}}
        return {
            LaneKey(group, partition)
            for group, members in groups_of(datastreams).items()
            for partition in TopicMatching().wanted(members, topics) or ()
            if not members[0].is_paused(partition)
        }

    def judge(self) -> None:
        """Check the calm state: every lane has one copy, at its planned instance, and all are healthy."""
        copied = Counter(key for node in self.nodes for key in node.follower.workers.copying)
        assert set(copied) == self.wanted()
        assert set(copied.values()) <= {1}
        plan = PlanStore(self.admin, "r").read().plan
        homes = {LaneKey(group, partition): task.instance for (group, partition), task in plan.owners.items()}
        for name, node in zip(NAMES, self.nodes, strict=True):
            for key in node.follower.workers.copying:
                assert homes[key] == name
        assert all(node.follower.health.is_well for node in self.nodes)
        self._judge_ends()
        self._judge_outcomes()

    def _judge_outcomes(self) -> None:
        """Check that every request has one outcome, which names an existing plan."""
        found = OutcomeStore(self.admin).newest(self.clock.now_ms())
        asked = sorted(one.id for one in found if one.kind in {"move", "rebalance"})
        assert asked == sorted(self.asked)
        epoch = PlanStore(self.admin, "r").read().plan.epoch
        assert all(0 < one.plan_epoch <= epoch for one in found if one.plan_epoch is not None), found

    def _judge_ends(self) -> None:
        """Check that pauses with an expiry, unless removed before, have expired with one event each."""
        datastreams = [one.datastream for one in self.definitions.all().readable]
        left = [one for datastream in datastreams for one in datastream.pauses.values()]
        assert [one for one in left if one.until_ms is not None] == []
        sentences = [one.sentence for one in EventLog(self.admin).newest(10_000) if one.kind == "command"]
        told = Counter(reason for one in sentences for reason in re.findall(r"pause \d+;", one))
        assert set(told.values()) <= {1}
        assert self.ending <= told.keys()


def run(seed: int, steps: int) -> None:
    """Run one schedule of faults, and the calm after it. Raises AssertionError."""
    simulation = Simulation(seed)
    for _ in range(steps):
        simulation.step()
    simulation.calm_down()
    simulation.judge()


def failures(seeds: range, steps: int) -> list[tuple[int, str]]:
    """Return the seeds whose schedule violated an invariant, with the error.

    Silences logs: for a separate process.
    """
    set_threshold("off")
    found = []
    for seed in seeds:
        try:
            run(seed, steps)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what one needs to know
            found.append((seed, f"{type(error).__name__}: {error}"[:500]))
    return found
