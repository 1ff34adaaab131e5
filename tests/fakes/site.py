"""Web application over a service in memory: the real use cases, stores, follower and leader."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import httpx
from fastapi import FastAPI

from api.access.gate import AccessMethods
from api.app import create_app
from api.http.slow_calls import ClusterRequestLimiter
from api.services import (
    LatencyHistoryQuery,
    LoadHistoryQuery,
    Pair,
    ProcessUsage,
    Services,
    UsageReport,
    no_history,
    no_usage,
)
from headrace.clusters.directory import ClusterDirectory
from headrace.plug_ins.names import PlugInNames
from headrace.process.process_usage import ProcessReporter, UsageMeter
from mirror.control.handlers import Control, ControlStores
from mirror.control.monitor_actions import MonitorActions
from mirror.control.operations import Operations
from mirror.control.restart_checks import RestartClusters
from mirror.coordination.datastream_records.loss_store import LostStore, RestoredRecords
from mirror.coordination.monitors.store import ActingStore
from mirror.coordination.stores.cluster_ids import BoundClusters, KnownClusters
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import NO_PLAN
from mirror.coordination.stores.root import service_secret
from mirror.coordination.topic_use import ClusterObservation, UnusedRules
from mirror.errors import Unreachable
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.snapshot import RunningInstance
from mirror.jobs.groups.record import read_groups
from mirror.jobs.retirement.steps import TopicRetirements
from mirror.jobs.retirement.store import RetirementStore, TopicUseStore
from mirror.jobs.retirement.topic_watch import TopicWatch
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import GroupPositions, TranslateJob
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName, InstanceName
from mirror.model.topics import TopicPartition
from mirror.ports import Planner
from mirror.settings import DefinitionSettings, KafkaCluster
from monitor.records.record import IncidentRecord
from pinot.history.points import LatencyHistory, LoadHour
from pinot.time_range import TimeRange
from tests.builders import DESTINATION, SOURCE
from tests.fakes.in_process import client_of
from tests.fakes.instances import FollowerRig, LeaderRig, gate_of
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import PATIENCE_SECONDS

LoadHours = Mapping[TopicPartition | None, Sequence[LoadHour]]
HOSTS = frozenset(
    {"test", "testserver", *(f"{name}.test" for name in ("one", "two", "three", "four", "five"))}
)
"""Host names of the instances in tests."""
ADDRESSES = {"source": "source-host:9092", "destination": "destination-host:9192"}


def no_cluster(cluster: ClusterRef, _: object) -> NoReturn:
    """Fail like a cluster that does not respond."""
    raise Unreachable(f"{cluster} does not respond")


class ConstantUsage(UsageMeter):
    """Usage of an instance that does not change with the tests that run in the same process."""

    def measure(self) -> ProcessUsage:
        """Return the usage."""
        return ProcessUsage(processes=1, memory_bytes=100 * 2**20, cpu_cores=0.25)


class SiteTransport(httpx.AsyncBaseTransport):
    """Applications of all sites of one service, by the host of their address.

    `failures`: actions by host, run before a request is sent there. `asked`: the requests in order.
    """

    def __init__(self, apps: Mapping[str, FastAPI]) -> None:
        self._apps = apps
        self.failures: dict[str, Callable[[], Awaitable[None]]] = {}
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the application, as a server would."""
        self.asked.append(request)
        host = request.url.host
        if host in self.failures:
            await self.failures[host]()
        if host not in self._apps:
            raise httpx.ConnectError("connection refused")
        inner = httpx.ASGITransport(app=self._apps[host], raise_app_exceptions=False)
        return await inner.handle_async_request(request)


class Site:
    """One instance; topic `t` has two partitions at the source. Sites of a server form one service."""

    def __init__(
        self,
        server: FakeZooKeeper | None = None,
        name: str = "one",
        planner: Planner | None = None,
        access: AccessMethods | None = None,
        rights: Mapping[str, KafkaCluster] | None = None,
        rules: DefinitionSettings | None = None,
        usable: int | None = None,
    ) -> None:
        self.server = server or FakeZooKeeper()
        self.progress: dict[LaneKey, LaneProgress] = {}
        self.followed: dict[bytes, bytes] = {}
        """Stored records of following groups."""
        self.first_offsets: dict[LaneKey, int] = {}
        self.incidents: list[IncidentRecord] = []
        self.topic_ids: dict[str, bytes | None] = {}
        self.before_progress: Callable[[], None] = lambda: None
        self.while_asleep: Callable[[], None] = self.tick
        self.load_history: Callable[[LoadHistoryQuery], LoadHours] = no_history
        self.latency_history: Callable[[LatencyHistoryQuery], LatencyHistory] = no_history
        self.usage: Callable[[TimeRange], UsageReport] = no_usage
        self.pairs: Sequence[Pair] = ()
        self.ask_cluster: Callable[[ClusterRef, Any], Any] = lambda *_: ClusterObservation("id", {})
        """Runs questions of retirements on a cluster."""
        self.slept = 0
        self.source, self.destination = FakeTopicAdmin(t=2), FakeTopicAdmin()
        self.source.identity, self.destination.identity = "id-of-source", "id-of-destination"
        clusters: dict[ClusterRef, FakeTopicAdmin] = {SOURCE: self.source, DESTINATION: self.destination}
        self.clusters = clusters
        self.follower = FollowerRig(self.server, name, rest_address=f"{name}.test:80")
        self.clock, self.session = self.follower.clock, self.follower.session
        self.limiter = ClusterRequestLimiter(self.clock.monotonic)
        self.leader = LeaderRig(
            self.session, clusters, self.clock, planner=planner, health=self.follower.health
        )
        self.follower.on_joined = self.leader.leader.joined
        self.health = self.follower.health
        directory = ClusterDirectory(
            rights or {alias: KafkaCluster(bootstrap_servers=address) for alias, address in ADDRESSES.items()}
        )
        self.definitions = self.leader.stores.definitions
        stores = self.leader.stores
        knows_callers = access is not None and access.is_asked
        admission = directory.admission(rules or DefinitionSettings(), knows_callers=knows_callers)
        if rules is not None:
            self.leader.admission = admission
        control = Control.build(
            ControlStores(self.definitions, stores.requests, stores.membership, self.leader.events),
            admission,
            self.clock,
            gate_of(self.session, clusters, self.clock),
        )
        self.services = services = Services(
            control=control,
            acting=MonitorActions(
                ActingStore(self.session, stores.requests, self.clock), stores.membership.live, self.clock
            ),
            problems=self.leader.stores.problems,
            snapshot=RunningInstance(
                InstanceName(name),
                self.follower.follower,
                self.follower.workers,
                self.leader.leader,
                self.health,
                self.leader.memory,
            ).snapshot,
            process_report=ProcessReporter(
                ConstantUsage(os.getpid(), self.clock.monotonic), PlugInNames(self.clock.monotonic)
            ),
            events=self.leader.events,
            clock=self.clock,
            plan=lambda: self.leader.stores.plans.read(NO_PLAN).plan,
            assessments=self.leader.stores.assessments.all,
            service_name="tests",
            live=Membership(self.session).live,
            previews=self.leader.fleet_planner,
            proposals=stores.proposals,
            operations=Operations(control, stores.requests, stores.outcomes, self.clock),
            default_destination=DESTINATION,
            cluster_of_address=directory.of_address,
            address_of_cluster=directory.address_of,
            tls=directory.tls,
            connectors=frozenset({"kafkaMirroringConnector", "headrace"}),
            transports=frozenset({"kafkaTransportProvider"}),
            progress=self._stored,
            progress_to_translate=lambda _source, destination, group: self._stored(destination, group),
            restarts=RestartClusters(
                lambda cluster, question: question(clusters[cluster]), BoundClusters(self.session)
            ),
            lost=LostStore(self.session),
            restored=RestoredRecords(self.session),
            followed_groups=lambda _, keys: read_groups(keys, self.followed),
            group_positions=self._positions_of,
            load_history=self._load_history,
            latency_history=self._latency_history,
            usage=self._usage,
            newest_advice=AdviceStore(self.session).read,
            incidents=lambda: self.incidents,
            pairs=lambda: self.pairs,
            topics=lambda cluster: None if clusters[cluster].failure else clusters[cluster].list_topics(),
            retirements=TopicRetirements(
                TopicWatch(
                    TopicUseStore(self.session),
                    KnownClusters(self.session),
                    self._ask_cluster,
                    lambda cluster: None if clusters[cluster].failure else clusters[cluster].list_topics(),
                    lambda _, keys: read_groups(keys, self.followed),
                    self.clock,
                ),
                RetirementStore(self.session),
                UnusedRules(),
                self.leader.events.append,
            ),
            is_store_answering=lambda: self.session.is_up,
            secret=lambda: service_secret(self.session),
            transport=lambda: self.neighbours,
            fleet_deadline_seconds=PATIENCE_SECONDS,
            sleep=self._sleep,
            access=access or AccessMethods(hosts=HOSTS),
            usable_bytes_per_second=usable,
        )
        self.app = create_app(services)
        self.client = client_of(self.app)
        self.neighbours = SiteTransport(self.server.applications)
        self.server.applications[f"{name}.test"] = self.app

    def _ask_cluster(self, cluster: ClusterRef, question: Any) -> Any:
        return self.ask_cluster(cluster, question)

    def _stored(self, destination: ClusterRef, group: GroupName) -> StoredLanes:
        return self.limiter.ask(destination, lambda: self._progress_of(group))

    def _progress_of(self, group: GroupName) -> StoredLanes:
        self.before_progress()
        mine = {key: one for key, one in self.progress.items() if key.group == group}
        return StoredLanes(mine, self.topic_ids, self.first_offsets)

    def _load_history(self, asked: LoadHistoryQuery) -> LoadHours:
        return self.load_history(asked)

    def _usage(self, when: TimeRange) -> UsageReport:
        return self.usage(when)

    def _latency_history(self, asked: LatencyHistoryQuery) -> LatencyHistory:
        return self.latency_history(asked)

    def _positions_of(self, job: TranslateJob) -> GroupPositions:
        sides = (self.destination, self.source) if job.back else (self.source, self.destination)
        for one in sides:
            if one.failure is not None:
                raise one.failure
        here, there = (
            {place: offset for (group, place), offset in one.committed.items() if group == job.group}
            for one in sides
        )
        return GroupPositions(here, there)

    async def _sleep(self, seconds: float) -> None:
        """Run `while_asleep` instead of sleeping."""
        self.slept += 1
        self.while_asleep()

    def tick(self, times: int = 2) -> None:
        """Run follower and leader for `times` rounds."""
        for _ in range(times):
            self.clock.advance(5)
            self.follower.contact.moment = self.clock.monotonic()
            self.follower.run_loop()
            self.leader.leader._log_sentence(self.leader.leader._try_tick())
            self.follower.run_loop()
            self.follower.workers.drain()

    def create(self, name: str = "orders", **more: Any) -> None:
        """Create a datastream over REST; it becomes READY and is planned."""
        answer = self.client.post("/v1/datastreams", json=a_body(name, **more))
        assert answer.status_code == 201, answer.text
        self.tick()

    def stored(self, name: str) -> Datastream:
        """Return the stored definition."""
        return self.definitions.get(DatastreamName(name)).datastream


@cache
def openapi_document() -> Any:
    """Return the OpenAPI document as a client receives it; computing it takes most of a second."""
    return Site().client.get("/v1/openapi.json").json()


def a_body(name: str = "orders", **more: Any) -> dict[str, Any]:
    """Return the body that creates a datastream on /v1."""
    return {
        "name": name,
        "source": {"cluster": "source", "topics": "t"},
        "metadata": {"owner": "tests"},
        **more,
    }


def two_sites() -> tuple[Site, Site]:
    """Return two instances of one service that know each other; the first one is leader."""
    server = FakeZooKeeper()
    one, two = Site(server, "one"), Site(server, "two")
    settle(one, two)
    return one, two


def settle(*sites: Site) -> None:
    """Run all sites until each has seen the last changes of every other."""
    for site in (*sites, *sites):
        site.tick()
