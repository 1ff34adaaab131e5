"""Creates views of the source and destination clusters for plans, dry runs and checks of new datastreams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from api.http.slow_calls import ANSWER_SECONDS
from headrace.clusters.directory import directory_of
from headrace.clusters.own_topics import own_topics
from headrace.placement.planners import capacity_resolver, choose_planning
from headrace.settings import HeadraceSettings
from mirror.adapters.kafka_admin import AdminPool, KafkaAdmin
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.stores import znodes
from mirror.coordination.stores.cluster_ids import BoundClusters, ClusterIds, KnownClusters
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.plan_store import LatestPlan, PlanStore
from mirror.instance.background_calls import BackgroundCalls, ThreadedCalls
from mirror.instance.discovery.preparation import TopicClaims, TopicRules
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_gate import RouteGate
from mirror.instance.discovery.route_map import RouteMap
from mirror.instance.discovery.route_watch import RouteWatch
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.fleet_planner import FleetPlanner, Judgement, LeaderStores
from mirror.instance.loads.observations import LoadMemory
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription
from mirror.ports import NodeStore

_PREVIEW_SECONDS: Final = ANSWER_SECONDS
"""Maximum seconds that a dry run waits for slow clusters."""
_CREATION_SECONDS: Final = 3.0
"""Maximum seconds that a creation, or a pause of a whole topic, waits for a slow cluster."""
_METRIC_TOPICS: Final = {"retention.ms": str(24 * 3_600_000), "cleanup.policy": "delete"}


@dataclass(frozen=True)
class FleetPlannerFactory:
    """Factory for cluster views, which share one admin client per cluster."""

    settings: HeadraceSettings
    nodes: NodeStore
    admin_of: Callable[[ClusterRef], KafkaAdmin]

    @classmethod
    def of(cls, settings: HeadraceSettings, nodes: NodeStore) -> FleetPlannerFactory:
        """Create the factory. No cluster is contacted yet."""
        directory, factor = directory_of(settings), settings.mirror.leader.replication_factor

        def admin(cluster: ClusterRef) -> KafkaAdmin:
            return KafkaAdmin(directory.resolve(cluster), factor)

        return cls(settings, nodes, AdminPool(admin, SystemClock()))

    def leader(
        self, stores: LeaderStores, background_calls: BackgroundCalls, memory: LoadMemory
    ) -> FleetPlanner:
        """Return the view of the clusters on which the leader's plans are based."""
        topic_discovery = self._topic_discovery(
            background_calls, self.settings.mirror.leader.discovery_interval_seconds
        )
        mirror = self.settings.mirror
        for topic in filter(None, (mirror.metrics_topic, mirror.events_topic, mirror.audit.topic)):
            description = TopicDescription(topic, 4, settings=_METRIC_TOPICS)
            topic_discovery.own_topics.need(ClusterRef(mirror.metrics_cluster), description)
        return self._fleet_planner(
            stores, background_calls, memory, topic_discovery, self._watch(topic_discovery).check
        )

    def preview(self, stores: LeaderStores, memory: LoadMemory) -> FleetPlanner:
        """Return the view of the clusters on which dry runs are based."""
        background_calls = ThreadedCalls(_PREVIEW_SECONDS, lambda: None)
        topic_discovery = self._topic_discovery(
            background_calls, self.settings.mirror.leader.discovery_interval_seconds
        )
        return self._fleet_planner(
            stores, background_calls, memory, topic_discovery, self._watch(topic_discovery).check_cached
        )

    def gate(self, plans: PlanStore) -> RouteGate:
        """Return the object that checks new datastreams before they are created.

        Each check queries the clusters again, because topics may be new.
        """
        route_map = RouteMap(ClusterIds(self.nodes), own_topics(self.settings))
        known = KnownClusters(self.nodes)
        return RouteGate(route_map, known, self.questions(), LatestPlan(plans), SystemClock())

    def questions(self) -> ClusterRequests:
        """Return a reader of cluster metadata with a short timeout."""
        return ClusterRequests(self.admin_of, _CREATION_SECONDS)

    def _topic_discovery(self, background_calls: BackgroundCalls, interval_seconds: float) -> TopicDiscovery:
        most = self.settings.mirror.leader.max_partitions_per_topic
        directory, api = directory_of(self.settings), self.settings.api
        admission = directory.admission(self.settings.mirror.definitions, knows_callers=api.knows_callers)
        rules = TopicRules(
            BoundClusters(self.nodes),
            TopicClaims(MadeTopics(self.nodes), MadeTopics(self.nodes, znodes.ADOPTED)),
            most,
            own_topics(self.settings),
            partial(admission.adopts, same_as=KnownClusters(self.nodes).same_as),
            admission.objection,
            admission.refusal,
            admission.waiting if admission.limits_partitions else None,
        )
        return TopicDiscovery(self.admin_of, SystemClock(), interval_seconds, background_calls, rules)

    def _watch(self, topic_discovery: TopicDiscovery) -> RouteWatch:
        return RouteWatch(topic_discovery, ClusterIds(self.nodes), own_topics(self.settings))

    def _fleet_planner(
        self,
        stores: LeaderStores,
        background_calls: BackgroundCalls,
        memory: LoadMemory,
        topic_discovery: TopicDiscovery,
        judgement: Judgement,
    ) -> FleetPlanner:
        measured = MeasuredLoads(self.nodes, SystemClock().now_ms)
        planning = choose_planning(self.settings, measured, background_calls)
        capacities = capacity_resolver(self.settings, self.nodes, stores.assessments.all)
        planning = replace(planning, memory=memory, capacities=capacities)
        return FleetPlanner(stores, planning, topic_discovery, SystemClock(), judgement)
