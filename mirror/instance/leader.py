"""Leader thread: in each tick, reads the state of the service, and publishes a plan if necessary.

Every instance runs this thread, but only the live instance with the lowest sequence number leads. A tick
returns its decision and the reason as a sentence, which is logged when it changes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.background_thread import BackgroundThread
from mirror.coordination.datastream_records.first_partitions import begins_at_end
from mirror.coordination.leader_actions import (
    CompleteRequest,
    PublishPlan,
    RemoveDefinition,
    StoreDefinition,
    after,
    is_over,
    is_too_early,
    leader_actions,
    status_change,
)
from mirror.coordination.operation import answered, deleted
from mirror.coordination.outcome_store import outcome_entries
from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.proposals.application import Application, next_application
from mirror.coordination.stores.definitions import DefinitionCache, Definitions, StoredDatastream
from mirror.coordination.stores.events import plan_events, request_event
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import Problem
from mirror.errors import (
    CoordinationError,
    HeadraceError,
    InvalidRequest,
    NotFound,
    PlanRejected,
    SessionLost,
    Unreachable,
)
from mirror.instance.backlog.backlog import Backlog, WaitingAges
from mirror.instance.backlog.watch import UncopiedLane, UncopiedWatch
from mirror.instance.discovery.readiness import DatastreamReadiness
from mirror.instance.event_publisher import DefinitionWriter, EventPublisher, audit_removal
from mirror.instance.fleet_planner import FleetPlanner
from mirror.instance.health import Health
from mirror.instance.leader_plan import LeaderPlan
from mirror.instance.loads.assessments import Assessment, AssessmentKeeper
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.problem_board import ProblemBoard
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import LoadSource
from mirror.model.reasons import reason_of
from mirror.ports import Clock

_log = get_logger(__name__)
_PREPARED: Final = frozenset({DatastreamStatus.INITIALIZING, DatastreamStatus.READY})
"""Statuses of datastreams whose destination topics are prepared and checked."""
_LONGEST_REST_SECONDS: Final = 0.5
_SHARED_STATE: Final = (Unreachable, CoordinationError)
"""Errors of the coordination store. They affect all datastreams, and therefore end the tick."""


@dataclass(frozen=True, slots=True)
class LeaderState:
    """Results of the leader's last tick. The defaults describe an instance that does not lead."""

    is_leading: bool = False
    problems: Mapping[DatastreamName, Problem] = field(default_factory=dict)
    """Datastreams with problems."""
    loads: Mapping[LoadSource, LoadStatus] = field(default_factory=dict)
    """Status of the loads of each source."""
    illegal_topics: Mapping[ClusterRef, int] = field(default_factory=dict)
    """Number of topics of each cluster that are ignored because of illegal names."""
    uncopied: tuple[UncopiedLane, ...] = ()
    """Partitions that no instance copies."""
    assessments: Mapping[GroupName, Assessment] = field(default_factory=dict)
    """Result of the latest planning run of each group."""


_NOT_LEADING: Final = LeaderState()


class Leader(BackgroundThread):
    """Runs the leader's ticks on one thread, from `start` to `stop`. `awake`: event that starts the next tick
    at once. Any thread may set `awake` after a change of the shared state."""

    def __init__(
        self,
        fleet_planner: FleetPlanner,
        publisher: EventPublisher,
        clock: Clock,
        health: Health,
        awake: threading.Event,
        tick_interval_seconds: float,
    ) -> None:
        super().__init__("leader", is_daemon=False)
        self._fleet_planner = fleet_planner
        self._stores = fleet_planner.stores
        self._publisher = publisher
        self._awake = awake
        definitions = fleet_planner.stores.definitions
        self._writer = DefinitionWriter(definitions, publisher, clock, awake.set)
        self._clock = clock
        self._health = health
        self._board = ProblemBoard(fleet_planner.stores.problems, health, clock)
        self._readiness = DatastreamReadiness(
            fleet_planner.topic_discovery, self._board, _SHARED_STATE, self._awake.set
        )
        self._load_watch = fleet_planner.load_watch(health)
        self._uncopied = UncopiedWatch(
            Backlog(fleet_planner.topic_discovery, clock),
            WaitingAges(fleet_planner.topic_discovery, clock),
            clock,
            health,
        )
        self._interval = tick_interval_seconds
        self._me: LiveInstance | None = None
        self._joined_at = 0.0
        self._definitions = DefinitionCache(fleet_planner.stores.definitions, awake.set)
        stores = fleet_planner.stores
        self._plan = LeaderPlan(stores.plans, stores.membership, publisher, clock)
        self._leads_as: LiveInstance | None = None
        self._assessments = AssessmentKeeper(fleet_planner.stores.assessments, clock)
        self._sentence = ""
        self._is_well = True

    @property
    def is_leading(self) -> bool:
        """Return whether this instance was leader in the last tick and has not left since."""
        return self._leads_as is not None and self._leads_as is self._me

    @property
    def state(self) -> LeaderState:
        """Results of the last tick while this instance leads, otherwise the defaults. Thread-safe."""
        if not self.is_leading:
            return _NOT_LEADING
        return LeaderState(
            is_leading=True,
            problems=self._board.problems,
            loads=self._load_watch.standings,
            illegal_topics=self._fleet_planner.topic_discovery.illegal_topics,
            uncopied=self._uncopied.lanes,
            assessments=self._assessments.known,
        )

    def joined(self, me: LiveInstance | None) -> None:
        """Set the membership of this instance, if it has joined. Called by the follower's thread."""
        self._joined_at = self._clock.monotonic()
        self._me = me
        self._awake.set()

    def wake(self) -> None:
        """Start the next tick at once. Called by watches of the shared state, from any thread."""
        self._awake.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                began = self._clock.monotonic()
                self._log_sentence(self._try_tick())
                # Under constant changes, half of the interpreter's time remains for REST and the follower.
                self._stopping.wait(min(self._clock.monotonic() - began, _LONGEST_REST_SECONDS))
                self._awake.wait(self._interval)
                self._awake.clear()
        except Exception as error:  # noqa: BLE001 - the top of a service loop
            _log.exception("leader thread died")
            self._health.died("leader", error)

    def _try_tick(self) -> str:
        try:
            sentence = self.tick()
        except _SHARED_STATE as error:
            self._forget()
            return f"retrying: {error}"
        except HeadraceError as error:
            self._is_well = False
            return f"no new plan: {error}"
        except Exception as error:  # noqa: BLE001 - no failed tick may stop what the instance copies
            self._forget()
            self._is_well = False
            sentence = f"no new plan: {reason_of(error)}"
            if sentence != self._sentence:
                _log.exception("leader tick failed")
            return sentence
        self._is_well = True
        return sentence

    def _forget(self) -> None:
        """Drop cached state of the coordination store, which may be outdated."""
        self._plan.forget()
        self._definitions.invalidate()

    def tick(self) -> str:
        """Run one tick of the leader, and return its decision. Raises HeadraceError if it fails."""
        me = self._me
        if me is None:
            self._resign()  # before the request for the leader: the store may be down
        leader = self._stores.membership.leader(me.sequence if me is not None else 0, self._awake.set)
        if me is None or leader is None or leader.sequence != me.sequence:
            self._resign()
            return f"{leader.name if leader else 'no instance'} leads"
        if self._leads_as is None:
            self._fleet_planner.keeper.take_up()
            self._assessments.take_up()
        self._leads_as = me  # from now on, the leader is queried for its loads
        self._fleet_planner.topic_discovery.own_topics.ensure()
        self._plan.read(me)
        return self._lead(self._definitions.all(), me)

    def _resign(self) -> None:
        """Drop everything that only a leader may keep, after losing leadership."""
        self._leads_as = None
        self._stores.beginnings.invalidate()
        self._board.resign()
        self._load_watch.resign()
        self._uncopied.resign()
        self._assessments.resign()

    def _lead(self, definitions: Definitions, me: LiveInstance) -> str:
        """Run the steps of a tick, and return its decision. A failure affects only its own datastream."""
        datastreams = definitions.datastreams
        stored = {definition.datastream.name: definition for definition in definitions.readable}
        self._board.begin()
        for definition in definitions.damaged:
            self._board.note(definition.error(), definition.name)
        plan = self._plan.current
        refused = self._readiness.refused(lambda: self._fleet_planner.judgement(datastreams, plan))
        ready = [
            member for member in datastreams if member.status in _PREPARED and member.name not in refused
        ]
        sentences = self._readiness.prepare(ready, plan)
        changes = self._status_changes(datastreams, stored.keys())
        fleet = self._fleet_planner.fleet_state(after(datastreams, changes), plan, refused, self._awake.set)
        fleet = replace(fleet, is_whole=definitions.is_whole, is_recovered=self._plan.is_recovered)
        if is_too_early(plan, fleet.live, self._clock.monotonic() - self._joined_at):
            return "waiting for other instances to return before planning"
        self._record_beginnings(fleet)
        application = next_application(fleet, self._stores.proposals, self._clock.now_ms())
        if application is not None:
            return self._apply(application, me)
        self._watch_loads(fleet, me)
        decision = self._fleet_planner.lead(fleet)
        for group, error in decision.problems.items():
            self._board.note(error, *(member.name for member in fleet.groups.get(group, ())))
        is_preparing = self._fleet_planner.topic_discovery.preparations.is_running
        self._board.note_troubles(self._stores.troubles, fleet.groups, is_preparing)
        self._uncopied.update(fleet, decision, self._board)
        self._assessments.update(fleet, decision, self._board)
        actions = leader_actions(fleet, changes, decision, self._over(fleet, decision))
        self._writer.write(changes, stored, self._board)
        for action in actions:
            if not isinstance(action, StoreDefinition):
                self._carry_out(action, me)
        self._board.settle(sentences, me.name, self._publisher.announce)
        if any(isinstance(action, CompleteRequest | RemoveDefinition) for action in actions):
            self._stores.outcomes.trim(self._clock.now_ms())  # these actions store results
        return decision.sentence

    def _record_beginnings(self, fleet: FleetState) -> None:
        """Store which partitions a new datastream has initially, before a plan contains later ones."""
        topics = self._fleet_planner.topic_discovery.known_topics(
            sorted({datastream.source for datastream in fleet.datastreams})
        )
        for member in (member for members in fleet.groups.values() for member in members):
            if member.source in topics and begins_at_end(member):
                with self._board.guarding(member.name, through=_SHARED_STATE):
                    self._stores.beginnings.record(member, topics[member.source])

    def _apply(self, application: Application, me: LiveInstance) -> str:
        """Publish a proposed plan, and answer its request. The next tick follows at once."""
        failure = application.failure
        try:
            if application.decision is not None:
                self._publish(application.decision, me)
        except (PlanRejected, InvalidRequest) as error:
            failure = error
        self._answer(CompleteRequest(application.request, failure, application.sentence), me)
        self._awake.set()
        return application.request.reason

    def _watch_loads(self, fleet: FleetState, me: LiveInstance) -> None:
        self._fleet_planner.refresh_loads(fleet)
        sources = self._fleet_planner.load_sources(fleet)
        if events := self._load_watch.check(sources, self._fleet_planner.keeper.problems, me.name):
            self._publisher.announce(events)

    def _status_changes(
        self, datastreams: tuple[Datastream, ...], stored: Set[DatastreamName]
    ) -> list[StoreDefinition]:
        """Return the due status changes of datastreams with readable definitions."""
        found: list[StoreDefinition] = []
        for datastream in (datastream for datastream in datastreams if datastream.name in stored):
            with self._board.guarding(datastream.name):
                change = status_change(datastream, datastreams, self._plan.current, self._clock.now_ms())
                found += [change] if change is not None else []
        return found

    def _over(self, fleet: FleetState, decision: Decision) -> list[DatastreamName]:
        found = []
        for datastream in fleet.datastreams:
            with self._board.guarding(datastream.name):
                found += [datastream.name] if is_over(datastream, fleet, decision) else []
        return found

    def _carry_out(self, action: PublishPlan | CompleteRequest | RemoveDefinition, me: LiveInstance) -> None:
        match action:
            case PublishPlan(decision):
                self._publish(decision, me)
            case CompleteRequest():
                self._answer(action, me)
            case RemoveDefinition(name):
                with self._board.guarding(name, through=(Unreachable, SessionLost)):
                    self._remove(name)

    def _remove(self, name: DatastreamName) -> None:
        """Remove the definition of a deleted datastream, and the records that it leaves.

        Another leader may have removed the definition since this tick has read it, and a new datastream may
        have the same name. The new datastream remains.
        """
        stores, known = self._stores, self._definitions.all().datastreams
        try:
            found = stores.definitions.read(name)
        except NotFound:
            return
        last = next((datastream for datastream in known if datastream.name == name), None)
        datastream = found.datastream if isinstance(found, StoredDatastream) else last
        if datastream is None or datastream.status is not DatastreamStatus.DELETING:
            return
        now_ms, records = self._clock.now_ms(), [stores.beginnings.forget(name)]
        if not any(member.group == datastream.group for member in known if member.name != name):
            records.append(self._fleet_planner.topic_discovery.claims.adopted_path(datastream.group))
        entries = outcome_entries(deleted(datastream, now_ms))
        if stores.definitions.remove(name, entries, now_ms, found, records):
            audit_removal(datastream)
            _log.info("datastream deleted", datastream=name)

    def _answer(self, answer: CompleteRequest, me: LiveInstance) -> None:
        request, failure, now_ms = answer.request, answer.failure, self._clock.now_ms()
        outcome = answered(request, failure, answer.sentence, self._plan.current, now_ms)
        is_ours = self._stores.requests.take(request, outcome_entries(outcome))
        if is_ours and failure is not None:
            reason = reason_of(failure)
            _log.warning("request failed", request=request.identity, reason=reason)
            self._publisher.announce((request_event(me.name, request, reason, now_ms),))

    def _publish(self, decision: Decision, me: LiveInstance) -> None:
        assert decision.plan is not None
        loads = self._fleet_planner.gathering.loads_of(decision.moves, self._definitions.all().datastreams)
        events = plan_events(
            decision.plan, decision.moves, decision.group_plans, me.name, loads, decision.move_reasons
        )
        self._plan.publish(decision.plan, events)

    def _log_sentence(self, sentence: str) -> None:
        if sentence != self._sentence:
            _log.info(sentence, plan=self._plan.current.epoch)
        self._sentence = sentence
        self._health.report("leader", self._is_well, sentence)
