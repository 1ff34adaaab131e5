"""Builds the objects of every process from the settings.

The functions contain almost no branches, and tests call them, too.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import httpx

from api.access.gate import AccessMethods
from api.access.listener_settings import TlsSettings
from api.http.slow_calls import ClusterRequestLimiter
from api.services import Services
from headrace.clusters.certificates import certificates_of
from headrace.clusters.directory import ClusterDirectory, directory_of
from headrace.clusters.questions import ClusterQuestions
from headrace.console.access.document import CONFIG_VARIABLE
from headrace.coordination.client import CoordinationClient, coordination_client, service_name, store_sentence
from headrace.dr.pairs import PairReader
from headrace.foresight.run import ForesightThread, build_foresight
from headrace.histories import histories_of
from headrace.oncall.incidents import kept_incidents
from headrace.oncall.usage_report import usage_of
from headrace.placement.fleet_planners import FleetPlannerFactory
from headrace.placement.planners import usable_bytes_per_second
from headrace.plug_ins.names import PlugInNames
from headrace.process.access import access_of_settings
from headrace.process.cores import usable_cores
from headrace.process.machine_code import worker_command
from headrace.process.open_nodes import report_open_nodes
from headrace.process.process_usage import ProcessReporter, UsageMeter
from headrace.process.stop_signals import held_back
from headrace.process.tls import is_readable, of_instances
from headrace.settings import HeadraceSettings, StoreKind
from headrace.threads.audits import AuditThread, build_audit
from headrace.threads.group_synchroniser import GroupSynchroniser, build_synchroniser
from headrace.threads.unused_topics import TopicWatchThread, build_retirements, build_topic_watch
from mirror.adapters.metric_topic import RecordTopic, placement_event_topic
from mirror.adapters.system_clock import SystemClock
from mirror.control.admission import Admission
from mirror.control.handlers import Control, ControlStores
from mirror.control.monitor_actions import MonitorActions
from mirror.control.operations import Operations
from mirror.control.restart_checks import RestartClusters
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.datastream_records.loss_store import LostStore, RestoredRecords
from mirror.coordination.monitors.store import ActingStore
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import LatestPlan, PlanStore
from mirror.coordination.stores.problems import ProblemStore, TroubleStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.coordination.stores.root import ensure_root, service_secret
from mirror.errors import ConfigError
from mirror.instance.background_calls import ThreadedCalls
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.event_publisher import EventPublisher, publish_losses
from mirror.instance.fleet_planner import LeaderStores
from mirror.instance.follower import Follower
from mirror.instance.health import Health
from mirror.instance.leader import Leader
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.assessments import AssessmentStore
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.store import ObservationStore
from mirror.instance.lost_definitions import DefinitionFile, LossWatch
from mirror.instance.own_session import Identity, Lease
from mirror.instance.plan_executor import FollowerCallbacks, SharedState
from mirror.instance.service import Instance
from mirror.instance.snapshot import RunningInstance
from mirror.instance.workers.costs import CostStore
from mirror.instance.workers.supervisor import Supervisor
from mirror.jobs.retirement.steps import TopicRetirements
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.metrics import PlacementEvent
from mirror.ports import Clock
from mirror.worker.pool import PoolLimits, Spawn

_log = get_logger(__name__)
_T = TypeVar("_T")
_TO_OTHERS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=30.0)
"""Limits of connections to other instances.

The number of connections is unlimited, because callers limit their concurrency.
"""


@dataclass(frozen=True)
class BuiltInstance:
    """An instance that is not started yet, and the services of its REST interface."""

    instance: Instance
    services: Services
    event_topic: RecordTopic[PlacementEvent]
    foresight: ForesightThread
    synchroniser: GroupSynchroniser
    topic_watch: TopicWatchThread
    audit: AuditThread


def instance_name(settings: HeadraceSettings, rest_port: int) -> InstanceName:
    """Return the configured name of the instance, or `<host>:<REST port>`.

    Raises ConfigError if no name is configured and the port is 0: the name would change with each restart,
    and the instance would lose its tasks.
    """
    if not settings.mirror.instance_name and not rest_port:
        raise ConfigError(
            "REST port 0 (any free port) requires mirror.instance_name",
            advice="set it (HEADRACE_MIRROR__INSTANCE_NAME) or choose a port",
        )
    return InstanceName(settings.mirror.instance_name or f"{socket.gethostname()}:{rest_port}")


def build_instance(
    settings: HeadraceSettings, config: Path | None, name: InstanceName, rest_address: str
) -> BuiltInstance:
    """Build the control process of an instance from the settings. Raises ConfigError."""
    for key in ("destination_cluster", "metrics_cluster"):
        settings.check_cluster(f"mirror.{key}", getattr(settings.mirror, key))
    clock, health, inbox = SystemClock(), Health(), queue.SimpleQueue[object]()
    leading = settings.mirror.leader
    memory = LoadMemory(leading.scale_in_after_hours * 3_600)
    session = _session(settings, name, health, lambda: follower)  # defined below
    membership, definitions = Membership(session), DefinitionStore(session)
    plans = PlanStore(session, writer=f"{name}-{clock.now_ms()}".replace("/", "_"))
    requests, events = RequestQueue(session), EventLog(session)
    event_topic = _event_topic(settings, directory_of(settings))
    report_losses = partial(publish_losses, name, events, event_topic.publish)
    worker = settings.mirror.worker
    supervisor = Supervisor(
        spawn=worker_spawner(config, name),
        workers=worker.processes or usable_cores(),
        inbox=inbox,
        clock=clock,
        limits=PoolLimits(worker.restart_delay_seconds, worker.silence_limit_seconds),
    )
    stores = _leader_stores(session, membership, definitions, plans, requests)
    awake = threading.Event()
    fleet_planners = FleetPlannerFactory.of(settings, session)
    fleet_planner = fleet_planners.leader(stores, ThreadedCalls(leading.patience_seconds, awake.set), memory)
    publisher = EventPublisher(events, event_topic.publish)
    leader = Leader(fleet_planner, publisher, clock, health, awake, leading.tick_interval_seconds)
    callbacks = FollowerCallbacks(leader.joined, report_losses, event_topic.drops)
    follower = Follower(
        identity=Identity(
            name, socket.gethostname(), os.getpid(), rest_address, settings.mirror.instance_weight
        ),
        shared=_shared_state(settings, name, session, membership, definitions, plans, callbacks),
        supervisor=supervisor,
        lease=Lease(session),
        clock=clock,
        health=health,
        handover_deadline_seconds=worker.handover_deadline_seconds,
    )
    running = RunningInstance(name, follower, supervisor, leader, health, memory)
    control = ControlStores(definitions, requests, membership, events, event_topic.publish)
    services = _services(settings, stores, control, fleet_planners, running, memory, session)
    services = _complete(services, access_of_settings(settings.api, rest_address, clock, health), settings)
    services = replace(services, audits=(audit := build_audit(settings, running)).audits)
    foresight = build_foresight(settings, services, AdviceStore(session), memory.expected, health)
    instance = Instance(session, partial(_prepare, session, settings, health), follower, leader, health)
    threads = (foresight, build_synchroniser(settings, services, health), build_topic_watch(services))
    return BuiltInstance(instance, services, event_topic, *threads, audit)


def _shared_state(
    settings: HeadraceSettings,
    name: InstanceName,
    session: CoordinationClient,
    membership: Membership,
    definitions: DefinitionStore,
    plans: PlanStore,
    callbacks: FollowerCallbacks,
) -> SharedState:
    measured, troubles, costs = MeasuredLoads(session), TroubleStore(session), CostStore(session)
    bound = BoundClusters(session)
    return SharedState(
        membership,
        definitions,
        plans,
        measured,
        troubles,
        costs,
        bound,
        FirstPartitionsStore(session),
        LossWatch(session, _memory(settings, name)),
        callbacks,
    )


def _memory(settings: HeadraceSettings, name: InstanceName) -> DefinitionFile:
    """Return the file in which an instance caches definitions of datastreams, to have them after a
    restart."""
    folder = settings.mirror.state_directory
    return DefinitionFile(Path(folder) if folder else None, name)


def _event_topic(settings: HeadraceSettings, directory: ClusterDirectory) -> RecordTopic[PlacementEvent]:
    cluster = directory.resolve(ClusterRef(settings.mirror.metrics_cluster))
    return placement_event_topic(cluster, settings.mirror.events_topic)


def _complete(services: Services, access: AccessMethods, settings: HeadraceSettings) -> Services:
    """Add access control, rate limits, task capacity, histories and incidents to the services of REST."""
    load_history, latency_history = histories_of(settings)
    return replace(
        services,
        access=access,
        usable_bytes_per_second=usable_bytes_per_second(settings),
        load_history=load_history,
        latency_history=latency_history,
        usage=usage_of(settings, services.control),
        incidents=kept_incidents(settings),
        is_certificate_readable=partial(is_readable, settings.api.tls),
        certificates=partial(certificates_of, settings),
        limits=settings.api.limits,
        metrics=settings.api.metrics,
    )


def _session(
    settings: HeadraceSettings, name: InstanceName, health: Health, follower: Callable[[], Follower]
) -> CoordinationClient:
    """Return a session with the coordination store that reports its state changes to the follower."""
    return coordination_client(
        settings, name, health, lambda state: follower().session_changed(state), lambda: follower().attend()
    )


def _prepare(session: CoordinationClient, settings: HeadraceSettings, health: Health) -> None:
    """Create and check the root node of the service, as soon as the session exists."""
    ensure_root(session)
    _log.info("coordination store ready", store=store_sentence(settings))
    if settings.store is StoreKind.ZOOKEEPER:
        from mirror.adapters.zookeeper import ZooKeeper

        assert isinstance(session, ZooKeeper)
        report_open_nodes(session, settings.zookeeper, health)


def _leader_stores(
    session: CoordinationClient,
    membership: Membership,
    definitions: DefinitionStore,
    plans: PlanStore,
    requests: RequestQueue,
) -> LeaderStores:
    return LeaderStores(
        membership,
        definitions,
        plans,
        requests,
        ProblemStore(session),
        TroubleStore(session),
        ObservationStore(session),
        AssessmentStore(session),
        ProposalStore(session),
        OutcomeStore(session),
        FirstPartitionsStore(session),
    )


def _services(
    settings: HeadraceSettings,
    stores: LeaderStores,
    control: ControlStores,
    fleet_planners: FleetPlannerFactory,
    running: RunningInstance,
    memory: LoadMemory,
    session: CoordinationClient,
) -> Services:
    clock, directory = SystemClock(), directory_of(settings)
    cluster_questions = ClusterQuestions(settings, ClusterRequestLimiter(clock.monotonic))
    handlers = Control.build(control, _admission(settings), clock, fleet_planners.gate(stores.plans))
    return Services(
        control=handlers,
        acting=MonitorActions(ActingStore(session, stores.requests, clock), stores.membership.live, clock),
        problems=stores.problems,
        snapshot=running.snapshot,
        process_report=_process_reporter(clock),
        events=control.events,
        clock=clock,
        plan=LatestPlan(stores.plans),
        assessments=stores.assessments.all,
        service_name=service_name(settings),
        live=stores.membership.live,
        previews=fleet_planners.preview(stores, memory),
        proposals=stores.proposals,
        operations=Operations(handlers, stores.requests, stores.outcomes, clock),
        default_destination=ClusterRef(settings.mirror.destination_cluster),
        cluster_of_address=directory.of_address,
        address_of_cluster=directory.address_of,
        tls=directory.tls,
        connectors=frozenset(settings.api.connector_names),
        transports=frozenset(settings.api.transport_provider_names),
        progress=cluster_questions.stored,
        progress_to_translate=cluster_questions.stored_to_translate,
        restarts=RestartClusters(cluster_questions.admin, BoundClusters(session)),
        lost=LostStore(session),
        restored=RestoredRecords(session),
        followed_groups=cluster_questions.followed_groups,
        group_positions=cluster_questions.group_positions,
        newest_advice=AdviceStore(session).read,
        pairs=PairReader(settings, session, cluster_questions.pair_copy),
        topics=partial(_topics_of, fleet_planners.questions()),
        retirements=_retirements(settings, session, fleet_planners, cluster_questions, control),
        is_store_answering=session.is_answering,
        secret=lambda: service_secret(session),
        transport=lambda: _transport(settings.api.tls),
        fleet_deadline_seconds=settings.api.fleet_deadline_seconds,
        sleep=asyncio.sleep,
    )


def _retirements(
    settings: HeadraceSettings,
    session: CoordinationClient,
    fleet_planners: FleetPlannerFactory,
    questions: ClusterQuestions,
    control: ControlStores,
) -> TopicRetirements:
    def announce(events: tuple[PlacementEvent, ...]) -> None:
        control.events.append(events)
        control.publish(events)

    topics = partial(_topics_of, fleet_planners.questions())
    return build_retirements(settings, session, topics, questions.followed_groups, announce)


def _process_reporter(clock: Clock) -> ProcessReporter:
    return ProcessReporter(UsageMeter(os.getpid(), clock.monotonic), PlugInNames(clock.monotonic))


def _topics_of(questions: ClusterRequests, cluster: ClusterRef) -> Mapping[str, int] | None:
    return questions.topics([cluster]).get(cluster)


def _admission(settings: HeadraceSettings) -> Admission:
    """Return the rules by which definitions of datastreams are checked."""
    directory, rules = directory_of(settings), settings.mirror.definitions
    return directory.admission(rules, knows_callers=settings.api.knows_callers)


def _transport(tls: TlsSettings) -> httpx.AsyncHTTPTransport:
    """Return the HTTP transport for requests to other instances."""
    verify = of_instances(tls) if tls.certificate_file else True
    return httpx.AsyncHTTPTransport(verify=verify, limits=_TO_OTHERS, trust_env=False)


def worker_spawner(config: Path | None, name: InstanceName) -> Spawn:
    """Return a function that starts a worker process with the same settings.

    The worker is connected by a socket pair.
    """
    environment = dict(os.environ)
    if config is not None:
        environment[CONFIG_VARIABLE] = str(config.resolve())

    def spawn(number: int, channel: socket.socket) -> subprocess.Popen[bytes]:
        arguments = worker_command("headrace.worker", str(channel.fileno()), str(number), name)
        with held_back():
            return subprocess.Popen(
                arguments, pass_fds=[channel.fileno()], env=environment, stdin=subprocess.DEVNULL
            )

    return spawn
