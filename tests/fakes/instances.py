"""Followers and leaders of a service in memory, stepped manually: no thread, no process, no server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mirror.control.admission import Admission, ClusterRights
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.routes.routes import RouteVerdict
from mirror.coordination.stores import znodes
from mirror.coordination.stores.cluster_ids import BoundClusters, ClusterIds, KnownClusters
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.plan_store import LatestPlan, PlanStore
from mirror.coordination.stores.problems import ProblemStore, TroubleStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import ConfigError, Unreachable
from mirror.instance.background_calls import BackgroundCalls
from mirror.instance.discovery.preparation import TopicClaims, TopicRules
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_gate import RouteGate
from mirror.instance.discovery.route_map import RouteMap
from mirror.instance.discovery.route_watch import RouteWatch
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.event_publisher import EventPublisher
from mirror.instance.fleet_planner import FleetPlanner, LeaderStores, Planning
from mirror.instance.follower import Follower
from mirror.instance.health import Health
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.providers import LoadProviders, ProviderInUse
from mirror.instance.loads.store import ObservationStore
from mirror.instance.loads.watch import AskFreshness
from mirror.instance.lost_definitions import DefinitionFile, LossWatch
from mirror.instance.own_session import Identity, Lease
from mirror.instance.plan_executor import FollowerCallbacks, SharedState
from mirror.instance.workers.costs import CapacityResolver, CostStore
from mirror.model.capacity.capacity import CapacityTerms
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import TaskCapacity
from mirror.model.metrics import Drops, PlacementEvent, WorkerLoss
from mirror.model.nodes import SessionState
from mirror.model.plan import Plan
from mirror.ports import Clock, LoadProvider, NodeStore, Planner
from tests.builders import OPEN_CLUSTERS
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Fault, Operation, Script
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.fakes.workers import FakeWorkers
from tests.patience import PATIENCE_SECONDS

SESSION_TIMEOUT_SECONDS = 10.0
HANDOVER_DEADLINE_SECONDS = 30.0


OWN_TOPICS = frozenset({"own-progress"})
_T = TypeVar("_T")


class AtOnce:
    """Background calls that run synchronously. Satisfies `BackgroundCalls`."""

    def ask(self, line: str, key: str, job: Callable[[], _T]) -> _T:
        """Run a job immediately, and return its result."""
        return job()


def topic_discovery_of(
    session: FakeSession,
    clusters: Mapping[ClusterRef, FakeTopicAdmin],
    clock: Clock,
    background_calls: BackgroundCalls | None = None,
    most_partitions: int = 1000,
    admission: Callable[[], Admission] = lambda: OPEN_CLUSTERS,
) -> TopicDiscovery:
    """Return the topic discovery of these clusters."""
    rules = TopicRules(
        BoundClusters(session),
        TopicClaims(MadeTopics(session), MadeTopics(session, znodes.ADOPTED)),
        most_partitions,
        OWN_TOPICS,
        lambda one: admission().adopts(one, KnownClusters(session).same_as),
        lambda one: admission().objection(one),
        lambda one: admission().refusal(one),
        lambda selected, held: admission().waiting(selected, held),
    )
    return TopicDiscovery(lambda cluster: clusters[cluster], clock, 3.0, background_calls or AtOnce(), rules)


def gate_of(session: NodeStore, clusters: Mapping[ClusterRef, FakeTopicAdmin], clock: Clock) -> RouteGate:
    """Return the admission gate for new datastreams."""
    questions = ClusterRequests(lambda cluster: clusters[cluster], PATIENCE_SECONDS, run=lambda job: job())
    route_map = RouteMap(ClusterIds(session), OWN_TOPICS)
    known = KnownClusters(session)
    return RouteGate(route_map, known, questions, LatestPlan(PlanStore(session, "gate")), clock)


class FakeContact:
    """Fake of `lease.Contact`. `moment`: time of the last contact; `on_beat`: action of a beat."""

    def __init__(self, moment: float, timeout_seconds: float = SESSION_TIMEOUT_SECONDS) -> None:
        self.moment = moment
        self.seconds = 0.0
        self.on_beat: Callable[[], None] = lambda: None
        self._timeout = timeout_seconds

    def session_timeout_seconds(self) -> float:
        """Return the session timeout of this test."""
        return self._timeout

    def last_contact(self) -> float:
        """Return the contact time that the test has set (monotonic seconds)."""
        return self.moment

    def beat(self) -> None:
        """Call `on_beat` instead of sending a heartbeat."""
        self.on_beat()

    def answer_seconds(self) -> float:
        """Return the response time that the test has set, in seconds."""
        return self.seconds


class FollowerRig:
    """One follower with its session, workers and clock."""

    def __init__(
        self,
        server: FakeZooKeeper,
        name: str = "one",
        clock: ManualClock | None = None,
        rest_address: str = "127.0.0.1:1",
        memory: DefinitionFile | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.session: FakeSession = server.session()
        self.session.script = self._note_contact
        self.script: Script = lambda _: None
        self.can_report_losses = True
        self.reported_losses: list[WorkerLoss] = []
        self.contact = FakeContact(self.clock.monotonic())
        self.workers = FakeWorkers(self.clock)
        self.workers.start()
        self.health = Health()
        self.plans = PlanStore(self.session, writer=name)
        self.on_joined: Callable[[LiveInstance | None], None] = lambda _: None
        self.event_drops: Callable[[], Drops] = Drops
        callbacks = FollowerCallbacks(self._membership_changed, self._report_losses, self._event_drops)
        shared = SharedState(
            Membership(self.session),
            DefinitionStore(self.session),
            self.plans,
            MeasuredLoads(self.session),
            TroubleStore(self.session),
            CostStore(self.session),
            BoundClusters(self.session),
            FirstPartitionsStore(self.session),
            LossWatch(self.session, memory or DefinitionFile(None, InstanceName(name))),
            callbacks,
        )
        self.follower = Follower(
            Identity(InstanceName(name), "host", 1, rest_address),
            shared,
            self.workers,
            Lease(self.contact),
            self.clock,
            self.health,
            HANDOVER_DEADLINE_SECONDS,
        )

    def _membership_changed(self, me: LiveInstance | None) -> None:
        self.on_joined(me)

    def _event_drops(self) -> Drops:
        return self.event_drops()

    def _report_losses(self, losses: Sequence[WorkerLoss]) -> None:
        if not self.can_report_losses:
            raise Unreachable("ZooKeeper")
        self.reported_losses += losses

    def _note_contact(self, operation: Operation) -> Fault | None:
        fault = self.script(operation)
        if self.session.is_up and fault is None:
            self.contact.moment = self.clock.monotonic()
        return fault

    def run_loop(self, times: int = 1) -> None:
        """Run the loop `times` rounds without waiting."""
        for _ in range(times):
            self.follower.run_once(0.0)

    def suspend(self) -> None:
        """Break the connection and notify the client."""
        self.session.disconnect()
        self.follower.session_changed(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Reconnect the same session."""
        self.session.reconnect()
        self.follower.session_changed(SessionState.CONNECTED)

    def lose(self) -> None:
        """Expire the session and notify the client."""
        self.session.expire()
        self.follower.session_changed(SessionState.LOST)

    def renew(self) -> None:
        """Open a new session for the client."""
        self.session.renew()
        self.follower.session_changed(SessionState.CONNECTED)

    @property
    def lanes(self) -> list[str]:
        """Partitions that run here."""
        return sorted(str(key.partition) for key in self.workers.lanes)


class LeaderRig:
    """One leader. Call `joined` with its membership."""

    def __init__(
        self,
        session: FakeSession,
        clusters: dict[ClusterRef, FakeTopicAdmin],
        clock: ManualClock | None = None,
        planner: Planner | None = None,
        provider: LoadProvider | None = None,
        health: Health | None = None,
        freshness: AskFreshness | None = None,
        task_bytes_per_second: int = 100,
        *,
        terms: CapacityTerms | None = None,
        refresh_seconds: float = 15.0,
    ) -> None:
        self.clock = clock or ManualClock()
        self.told: list[PlacementEvent] = []
        self.health = health or Health()
        self.stores = LeaderStores(
            Membership(session),
            DefinitionStore(session),
            PlanStore(session, "leader"),
            RequestQueue(session),
            ProblemStore(session),
            TroubleStore(session),
            ObservationStore(session),
            AssessmentStore(session),
            ProposalStore(session),
            OutcomeStore(session),
            FirstPartitionsStore(session),
        )
        self.events = EventLog(session)
        measured = MeasuredLoads(session)
        service = ProviderInUse(provider or measured, freshness or measured.freshness)
        self.chosen: dict[str, ProviderInUse] = {}  # selectable by datastreams
        self.memory = LoadMemory()
        planning = Planning(
            planner or SimplePlanner(),
            LoadProviders(service, "self", self._chosen_provider, self.clock),
            TaskCapacity(task_bytes_per_second),
            memory=self.memory,
            refresh_seconds=refresh_seconds,
            capacities=self._capacities(session, terms or CapacityTerms(task_bytes_per_second, 1, None, 90)),
        )
        self.clusters = clusters
        self.admission: Admission | None = None  # None: no restrictions
        self.topic_discovery = topic_discovery_of(session, clusters, self.clock, admission=self._admission)
        self.watch = RouteWatch(self.topic_discovery, ClusterIds(session), OWN_TOPICS)
        self.fleet_planner = FleetPlanner(
            self.stores, planning, self.topic_discovery, self.clock, self.watch.check
        )
        publisher, awake = EventPublisher(self.events, self._tell), threading.Event()
        self.leader = Leader(self.fleet_planner, publisher, self.clock, self.health, awake, 1.0)

    def _chosen_provider(self, name: str) -> ProviderInUse:
        if name not in self.chosen:
            raise ConfigError(f"there is no load provider {name}")
        return self.chosen[name]

    def _capacities(self, session: FakeSession, terms: CapacityTerms) -> CapacityResolver:
        return CapacityResolver(CostStore(session), lambda _: terms, self.stores.assessments.all, self.clock)

    def _admission(self) -> Admission:
        return self.admission or Admission(dict.fromkeys(self.clusters, ClusterRights()), ["*"])

    def judge_by(self, verdict: RouteVerdict) -> None:
        """Use this verdict from the next tick, for the topics that clusters list by then."""

        def look(datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
            self.watch.check(datastreams, plan)
            left_out = {name: frozenset(topics) for name, topics in verdict.left_out.items()}
            topics = self.topic_discovery.topics(sorted(self.clusters))
            self.topic_discovery.leave_out(left_out, topics)
            return verdict

        self.fleet_planner.judgement = look

    def _tell(self, events: Sequence[PlacementEvent]) -> None:
        self.told.extend(events)
