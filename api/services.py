"""Dependencies of the endpoints in one object, which `headrace/wiring.py` creates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Protocol

from httpx import AsyncBaseTransport

from api.access.gate import AccessMethods
from api.access.listener_settings import LimitSettings
from api.metrics.partitions import MetricSettings
from mirror.control.handlers import Control
from mirror.control.monitor_actions import MonitorActions
from mirror.control.operations import Operations
from mirror.control.restart_checks import RestartClusters
from mirror.coordination.datastream_records.loss_store import LostStore, RestoredRecords
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import ProblemStore
from mirror.errors import HeadraceError, HistoryUnavailable
from mirror.instance.fleet_planner import FleetPlanner
from mirror.instance.health import HealthCondition
from mirror.instance.loads.assessments import Assessment
from mirror.instance.snapshot import InstanceSnapshot
from mirror.jobs.audits.summary import TopicAudit
from mirror.jobs.groups.record import GroupKeys, StoredGroups
from mirror.jobs.retirement.steps import TopicRetirements
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import GroupPositions, TranslateJob
from mirror.model.capacity.advice import Advice
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.tls import CertificateValidity
from monitor.records.record import IncidentRecord
from monitor.usage_bill import UsageLine
from pinot.history.points import LatencyHistory, LoadHour
from pinot.time_range import TimeRange


class ProcessUsage(NamedTuple):
    """Resource usage of an instance's processes.

    `memory_bytes`: resident memory of all processes of the instance. `cpu_cores`: average number of cores in
    use since the previous measurement, None for the first. Fields are None if the system does not report
    them.
    """

    processes: int | None = None
    memory_bytes: int | None = None
    cpu_cores: float | None = None


class ProcessReport(NamedTuple):
    """Resource usage of an instance, and its placement strategies and load providers."""

    usage: ProcessUsage = ProcessUsage()
    strategies: tuple[str, ...] = ()
    load_providers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadHistoryQuery:
    """Query for hourly loads of partitions of a source cluster.

    Without partitions, the query is for whole topics.
    """

    cluster: ClusterRef
    when: TimeRange
    places: Sequence[TopicPartition]
    topics: Collection[str]


@dataclass(frozen=True)
class LatencyHistoryQuery:
    """Query for the latency of a group in at most `points` time steps. `topics` None: all topics of the
    group."""

    group: GroupName
    when: TimeRange
    points: int
    topics: Collection[str] | None


class UsageReport(NamedTuple):
    """Usage of a period, as measured by the mirror.

    `measured_by`: `pinot` or `topic`. `quota_of` returns the quota of an owner in bytes per second, 0 without
    one.
    """

    lines: Sequence[UsageLine]
    measured_by: str
    currency: str
    quota_of: Callable[[str], int]


class Pair(Protocol):
    """State of a pair of clusters that `headrace dr` manages, without the lag of its datastreams."""

    @property
    def datastreams(self) -> Collection[str]:
        """Names of the datastreams that copy to the inactive cluster."""
        ...

    def document(self, lags: Mapping[str, Sequence[Mapping[str, Any]] | HeadraceError]) -> dict[str, Any]:
        """Return the document of `headrace dr status`. `lags`: lag of each partition for each datastream, or
        the error that made it unknown."""
        ...


def no_usage(_: TimeRange) -> NoReturn:
    """Reject a query for usage because no measurements are configured. Raises HistoryUnavailable."""
    raise HistoryUnavailable(
        "usage is not available: neither Pinot nor the metrics topic is configured",
        advice="add the cluster that mirror.metrics_cluster names to [clusters], or configure [pinot]",
    )


def no_history(_: LoadHistoryQuery | LatencyHistoryQuery) -> NoReturn:
    """Reject a query for history because Pinot is not configured. Raises HistoryUnavailable."""
    raise HistoryUnavailable(
        "history is not available: Pinot is not configured", advice="set broker and controller in [pinot]"
    )


@dataclass(frozen=True)
class Services:
    """Dependencies of the REST endpoints: use cases, and functions that read the state."""

    control: Control
    acting: MonitorActions
    problems: ProblemStore
    snapshot: Callable[[], InstanceSnapshot]
    """Returns the state of this instance. Thread-safe and without I/O."""
    events: EventLog
    clock: Clock
    plan: Callable[[], Plan]
    assessments: Callable[[], Mapping[GroupName, Assessment]]
    """Result of the latest planning run of each group, by any leader."""
    service_name: str
    """Identifies this service among others in the same store."""
    live: Callable[[], tuple[LiveInstance, ...]]
    previews: FleetPlanner
    """Computes dry runs with the loads of this instance. Only the leader has current loads."""
    proposals: ProposalStore
    operations: Operations
    default_destination: ClusterRef
    cluster_of_address: Callable[[str], ClusterRef]
    address_of_cluster: Callable[[ClusterRef], str]
    tls: frozenset[ClusterRef]
    """Clusters to which Headrace connects with TLS."""
    connectors: frozenset[str]
    """Names of Brooklin connectors that mirror Kafka."""
    transports: frozenset[str]
    """Names of Brooklin transport providers that write to Kafka."""
    progress: Callable[[ClusterRef, GroupName], StoredLanes]
    """Returns the stored progress of a group at a destination. Raises NothingStored, Unreachable."""
    progress_to_translate: Callable[[ClusterRef, ClusterRef, GroupName], StoredLanes]
    """Returns the stored progress of a group for a source and a destination.

    The progress includes the first offsets of lanes that have copied nothing.
    """
    restarts: RestartClusters
    """Compares the destination before a datastream is restarted."""
    lost: LostStore
    """Definitions lost from the coordination store."""
    restored: RestoredRecords
    """Writes the records of initial partitions, created topics and adopted topics of a restored
    datastream."""
    followed_groups: Callable[[ClusterRef, GroupKeys], StoredGroups]
    """Returns the stored state of a datastream's consumer groups at its destination. Raises Unreachable."""
    group_positions: Callable[[TranslateJob], GroupPositions]
    """Returns a consumer group's committed offsets on both clusters. Raises NotAuthorized, Unreachable."""
    topics: Callable[[ClusterRef], Mapping[str, int] | None]
    """Returns the partition counts of a cluster's topics; None if the cluster does not respond in time."""
    retirements: TopicRetirements
    """Finds unused topics and retires them."""
    is_store_answering: Callable[[], bool]
    """Returns whether the coordination store responded to the last heartbeat.

    The function sends no request.
    """
    secret: Callable[[], str]
    """Returns the secret shared by the instances of this service. Raises Unreachable, DamagedState."""
    transport: Callable[[], AsyncBaseTransport]
    """Returns the transport for HTTP requests to other instances."""
    fleet_deadline_seconds: float
    """Time to wait for another instance."""
    sleep: Callable[[float], Awaitable[None]]
    """Waits for a number of seconds between two polls."""
    load_history: Callable[[LoadHistoryQuery], Mapping[TopicPartition | None, Sequence[LoadHour]]] = (
        no_history
    )
    """Returns the hourly loads of the requested partitions; the key None means the sum of all topics.

    Raises HistoryUnavailable, Unreachable, AnalyticsError.
    """
    latency_history: Callable[[LatencyHistoryQuery], LatencyHistory] = no_history
    """Returns the latency of records. Raises HistoryUnavailable, Unreachable, AnalyticsError."""
    usage: Callable[[TimeRange], UsageReport] = no_usage
    """Returns the usage of owners and datastreams in whole days. Raises HistoryUnavailable, Unreachable,
    AnalyticsError, TopicMissing."""
    newest_advice: Callable[[], Advice | None] = lambda: None
    """Returns the leader's latest sizing advice. Raises Unreachable."""
    incidents: Callable[[], Sequence[IncidentRecord]] = tuple
    """Returns the monitor's incident records, newest first. Raises Unreachable, Refused, Busy."""
    usable_bytes_per_second: int | None = None
    """Usable capacity of a task, for groups whose plan does not record one.

    None means that placement ignores load.
    """
    access: AccessMethods = field(default_factory=AccessMethods)
    """Authentication of callers."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """Limits for callers of this instance."""
    metrics: MetricSettings = field(default_factory=MetricSettings)
    """Number of partitions with their own series."""
    certificates: Callable[[], Iterable[CertificateValidity]] = tuple
    """Returns the validity of the certificate files in the settings."""
    is_certificate_readable: Callable[[], bool] = lambda: True
    """Returns whether new connections can use the current certificate of REST."""

    audits: Callable[[], Sequence[TopicAudit]] = tuple
    """Returns the state of the continuous audits of this instance, by datastream and topic."""
    pairs: Callable[[], Sequence[Pair]] = tuple
    """Returns the pairs of clusters in the settings. Raises Unreachable."""
    process_report: Callable[[], ProcessReport] = ProcessReport
    """Returns the resource usage of this instance's processes, and its plug-ins."""

    @property
    def status(self) -> InstanceSnapshot:
        """Current state of this instance."""
        return self.snapshot()

    def readiness(self) -> dict[str, HealthCondition]:
        """Return the conditions under which this process can serve requests. Texts contain no file names,
        because the conditions may be public."""
        tokens, certificate = self.access.has_readable_tokens, self.is_certificate_readable()
        log = "is unreadable; see the log"
        return {
            **self.status.readiness,
            "tokens": HealthCondition(tokens, "tokens are readable" if tokens else f"the token file {log}"),
            "certificate": HealthCondition(
                certificate, "is valid" if certificate else f"the certificate {log}"
            ),
        }
