"""Exceptions in a step of one datastream, request or lane suspend exactly that one until it is resolved."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.errors import CorruptData, InvalidRequest, LoadUnavailable, Refused
from mirror.instance.workers.lane_table import LanePhase
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.datastreams.lanes import (
    LaneEvent,
    LaneKey,
    LanePaused,
    LaneSpec,
    LaneStarted,
    LaneStopped,
    LaneWindows,
    Unanswered,
)
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName
from mirror.model.load import LoadReport
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicCreation, TopicDescription, TopicNaming, TopicPartition
from mirror.worker.process import Worker
from mirror.worker.protocol import (
    LaneNews,
    Message,
    MessageReader,
    Shutdown,
    StartLanes,
    StopLanes,
    encode_message,
)
from mirror.worker.reports import MetricReports
from tests.builders import DESTINATION, SOURCE, a_datastream, a_spec, an_instance
from tests.examples import examples
from tests.fakes.clock import ManualClock
from tests.fakes.instances import FollowerRig, LeaderRig
from tests.fakes.node_store import FakeZooKeeper, Operation
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import PATIENCE_SECONDS

BAD, GOOD = DatastreamName("bad"), DatastreamName("good")
THERE = ClusterRef("there")


class FatalMemoryError(MemoryError):
    """An exception as severe as possible."""


errors = st.sampled_from(
    [
        KeyError("topics"),
        RecursionError("too deep"),
        UnicodeEncodeError("utf-8", "\udfff", 0, 1, "surrogates not allowed"),
        FatalMemoryError(),
        MemoryError(),
        AssertionError(),
        StopIteration(),
        ZeroDivisionError(),
        OSError(24, "too many open files"),
        ValueError("Exceeds the limit (4300 digits) for integer string conversion"),
        Refused("no"),
        InvalidRequest("never"),
        CorruptData("rubbish"),
        LoadUnavailable("nobody knows"),
    ]
)


class FaultyAdmin(FakeTopicAdmin):
    """Fake cluster. `fault`: method that fails, and its exception."""

    fault: tuple[str, Exception] | None = None

    def list_topics(self) -> Mapping[str, int]:
        self._fail("list_topics")
        return super().list_topics()

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        self._fail("describe")
        return super().describe(topics)

    def create_each(self, topics: Sequence[TopicDescription]) -> dict[str, TopicCreation]:
        self._fail("create")
        return super().create_each(topics)

    def _fail(self, method: str) -> None:
        if self.fault is not None and self.fault[0] == method:
            raise self.fault[1].with_traceback(None)


class FaultyPlanner:
    """Planner that fails for one group."""

    error: Exception | None = None

    def plan(self, request: PlanningRequest) -> GroupPlan:
        if self.error is not None and str(request.group) == BAD:
            raise self.error.with_traceback(None)
        return SimplePlanner().plan(request)


class FaultyLoads:
    """Load provider that fails for one source cluster."""

    error: Exception | None = None

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        if self.error is not None and cluster == THERE:
            raise self.error.with_traceback(None)
        return LoadReport({}, "test")


class Site:
    """A leader with two datastreams: `bad` copies from `there`, and one of its steps fails."""

    def __init__(self) -> None:
        self.server, self.clock = FakeZooKeeper(), ManualClock()
        self.planner, self.loads = FaultyPlanner(), FaultyLoads()
        self.there, self.back = FaultyAdmin(t=2), FaultyAdmin()
        self.source = FakeTopicAdmin(t=2)
        clusters: dict[ClusterRef, FakeTopicAdmin] = {
            SOURCE: self.source,
            DESTINATION: FakeTopicAdmin(),
            THERE: self.there,
            ClusterRef("back"): self.back,
        }
        self.session = self.server.session()
        self.rig = LeaderRig(self.session, clusters, self.clock, self.planner, self.loads)
        self.rig.leader.joined(Membership(self.server.session()).join(an_instance("one")))
        self.create(BAD, source=THERE, destination=ClusterRef("back"))
        self.create(GOOD)

    def create(self, name: str, **more: Any) -> None:
        one = a_datastream(name, "t", naming=TopicNaming(f"{name}.*"), **more)
        self.rig.stores.definitions.create(replace(one, status=DatastreamStatus.INITIALIZING))

    def tick(self, times: int = 3) -> None:
        for _ in range(times):
            self.clock.advance(10)
            self.rig.leader._log_sentence(self.rig.leader._try_tick())

    def planned(self, group: str) -> int:
        plan = PlanStore(self.server.session(), "r").read().plan
        return len(plan.planned.get(GroupName(group), ()))

    def ask(self) -> None:
        requests = self.rig.stores.requests
        for group in (BAD, GOOD):
            requests.add(RebalanceRequest(GroupName(group), True, "me", "to see", 1))
            moved = frozenset({TopicPartition("t", 0)})
            requests.add(MoveRequest(GroupName(group), moved, "one", "me", 1))


def _cluster(admin: str, method: str) -> Callable[[Site, Exception], None]:
    def inject(site: Site, error: Exception) -> None:
        getattr(site, admin).fault = method, error

    return inject


def _plan(site: Site, error: Exception) -> None:
    site.planner.error = error


def _loads(site: Site, error: Exception) -> None:
    site.loads.error = error


def _store_of(folder: str) -> Callable[[Site, Exception], None]:
    def inject(site: Site, error: Exception) -> None:
        def script(operation: Operation) -> None:
            if operation.is_write and f"/{folder}/bad" in operation.paths:
                raise error.with_traceback(None)

        site.session.script = script

    return inject


STEPS: dict[str, Callable[[Site, Exception], None]] = {
    "discovery": _cluster("there", "list_topics"),
    "look at the destination": _cluster("back", "list_topics"),
    "description": _cluster("there", "describe"),
    "creation of topics": _cluster("back", "create"),
    "plan": _plan,
    "loads": _loads,
    "change of status": _store_of("datastreams"),
    "assessment": _store_of("assessments"),
}


def heal(site: Site) -> None:
    site.there.fault = site.back.fault = site.planner.error = site.loads.error = None
    site.session.script = lambda _: None


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=examples(6), deadline=None)
@given(error=errors)
def test_whatever_a_step_of_the_leader_raises_the_others_are_served(step: str, error: Exception) -> None:
    site = Site()
    STEPS[step](site, error)
    site.tick()
    assert site.planned(GOOD) == 2
    assert site.rig.health.conditions()["leader"].is_well
    assert set(site.rig.stores.problems.all()) <= {BAD}
    if step not in ("loads", "assessment"):  # these problems end when the next tick plans nothing
        assert set(site.rig.stores.problems.all()) == {BAD}
    site.source.grow("t", 5)
    site.create("late")
    site.ask()
    site.tick()
    assert (site.planned(GOOD), site.planned("late")) == (5, 5)
    assert site.rig.stores.requests.pending() == ()
    heal(site)
    site.tick()
    assert site.rig.stores.problems.all() == {}
    assert site.planned(BAD) == 2


@dataclass
class FaultyEngine:
    """Engine that copies nothing; one method fails for one group. Satisfies `ports.CopyEngine`."""

    method: str
    error: Exception | None

    def __post_init__(self) -> None:
        self.events: list[LaneEvent] = []
        self.lanes: set[LaneKey] = set()

    def _fail(self, method: str, keys: Sequence[LaneKey]) -> None:
        if self.error is not None and method == self.method and any(str(key.group) == BAD for key in keys):
            raise self.error.with_traceback(None)

    def expect_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Fail for the lanes of the bad group, if the test requires it."""
        self._fail("expect", [spec.key for spec in specs])

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Start lanes at offset 0, and report each start."""
        self._fail("start", [spec.key for spec in specs])
        self.lanes.update(spec.key for spec in specs)
        self.events += [LaneStarted(spec.key, 0) for spec in specs]

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop lanes, and report each stop."""
        self.lanes -= set(keys)
        self.events += [LaneStopped(key, 0) for key in keys]

    def share_quotas(self, shares: Mapping[GroupName, float]) -> None:
        """Ignore the quotas of datastream groups."""

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """Return the lane events since the previous call."""
        events, self.events = self.events, []
        return events

    def metrics(self) -> Sequence[MirrorMetric]:
        """Return no measurements."""
        return ()

    def counted(self, metrics: Sequence[MirrorMetric]) -> Sequence[MirrorMetric]:
        return metrics

    def positions(
        self, metrics: Sequence[MirrorMetric], at: float | None = None
    ) -> Sequence[LanePosition | None]:
        """Return no positions, because there are no measurements."""
        return ()

    def measured_checkpoints(self) -> Sequence[int]:
        return []

    def timestamp_offsets(self) -> Sequence[int]:
        return []

    def unanswered(self) -> Mapping[LaneKey, Unanswered]:
        """Return no lanes: responses are never overdue."""
        return {}

    def windows(self) -> Mapping[LaneKey, LaneWindows]:
        """Return no lanes: no TCP window limits a rate."""
        return {}

    def take_throttled(self) -> Mapping[ClusterRef, float]:
        """Return no clusters: no broker throttles."""
        return {}

    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Return no clusters: all clock skews are unknown."""
        return {}

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Return no events: nothing is left to drain."""
        return ()

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Discard the measurements."""

    def drops(self) -> Drops:
        """Return that no measurement was dropped."""
        return Drops()


class WorkerRig:
    """A worker in a thread, and the control process's end of its channel."""

    def __init__(self, engine: FaultyEngine) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_SECONDS)
        self.channel, self._theirs, self.clock = ours, theirs, ManualClock()
        self._reader, self._inbox = MessageReader(), list[Message]()
        reports = MetricReports(engine, engine, self.clock, 1e9)
        worker = Worker(theirs, engine, reports, self.clock, "interpreted")
        self._thread = threading.Thread(target=worker.run)
        self._thread.start()

    def say(self, message: Message) -> None:
        self.channel.sendall(encode_message(message))

    def hear(self, done: Callable[[dict[LaneKey, LaneEvent]], bool]) -> dict[LaneKey, LaneEvent]:
        """Return the latest event of each lane once `done` accepts them."""
        newest: dict[LaneKey, LaneEvent] = {}
        while not done(newest):
            for message in self._reader.feed(self.channel.recv(65_536)):
                if isinstance(message, LaneNews):
                    newest.update({event.key: event for event in message.events})
        return newest

    def end(self) -> None:
        self.say(Shutdown(0.0))
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self.channel.close()
        self._theirs.close()


@contextmanager
def a_worker(engine: FaultyEngine) -> Iterator[WorkerRig]:
    rig = WorkerRig(engine)
    try:
        yield rig
    finally:
        rig.end()


@settings(max_examples=examples(8), deadline=None)
@given(error=errors)
def test_whatever_the_start_of_a_lane_raises_the_worker_copies_the_others(error: Exception) -> None:
    engine = FaultyEngine("start", error)
    bad, good = a_spec("t-0", BAD), a_spec("t-0", GOOD)
    with a_worker(engine) as rig:
        rig.say(StartLanes(Epoch(1), (bad, good)))
        newest = rig.hear(lambda found: len(found) == 2)
        assert isinstance(newest[bad.key], LanePaused)
        assert isinstance(newest[good.key], LaneStarted)
        engine.error = None
        rig.clock.advance(10)
        assert isinstance(rig.hear(lambda found: bad.key in found)[bad.key], LaneStarted)
        rig.say(StopLanes((bad.key, good.key)))
        newest = rig.hear(lambda found: len(found) == 2)
        assert all(isinstance(one, LaneStopped) for one in newest.values())


def test_what_a_worker_cannot_read_or_does_not_know_is_skipped() -> None:
    good = a_spec("t-0", GOOD)
    with a_worker(FaultyEngine("", None)) as rig:
        for body in (b"", b"rubbish", b'["Unheard",1]', b'["StartLanes",1,[5]]', b"[" * 50_000):
            rig.channel.sendall(len(body).to_bytes(4, "big") + body)
        rig.say(LaneNews(()))
        rig.say(StartLanes(Epoch(1), (good,)))
        assert set(rig.hear(bool)) == {good.key}


@settings(max_examples=examples(6), deadline=None)
@given(error=errors)
def test_whatever_a_round_of_the_follower_raises_what_runs_goes_on(error: Exception) -> None:
    site = Site()
    rig = FollowerRig(site.server, "two", site.clock)
    rig.run_loop()
    site.tick(1)
    rig.contact.moment = site.clock.monotonic()
    rig.run_loop(3)
    running = set(rig.lanes)

    def fail(*_: object) -> None:
        raise error.with_traceback(None)

    rig.workers.before_start = fail
    site.source.grow("t", 9)
    for _ in range(3):
        site.tick(1)
        rig.contact.moment = site.clock.monotonic()
        rig.run_loop(2)
    assert running <= set(rig.lanes)
    assert not rig.health.has_died.is_set()
    rig.workers.before_start = lambda *_: None
    rig.run_loop(3)
    assert all(one.phase is LanePhase.COPYING for one in rig.workers.lanes.values())
