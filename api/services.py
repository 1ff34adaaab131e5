"""Dependencies of the endpoints in one value, created by `headrace/wiring.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from httpx import AsyncBaseTransport

from api.access.gate import AccessMethods
from api.access.settings import LimitSettings
from api.histories.questions import LatencyHistoryQuery, LoadHistoryQuery, no_history
from api.settings import MetricSettings
from mirror.control.handlers import Control
from mirror.control.monitors.acts import MonitorActions
from mirror.control.operations import Operations
from mirror.control.restarts.clusters import RestartClusters
from mirror.coordination.losses.records import RestoredRecords
from mirror.coordination.losses.store import LostStore
from mirror.coordination.proposed.proposal_store import ProposalStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import Problem, ProblemStore
from mirror.instance.health import HealthCondition
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import WorkerCount
from mirror.instance.world_view import WorldView
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import GroupPositions, TranslateJob
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.metrics import Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.plan import Plan
from mirror.model.sizing.advice import Advice
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.tls import CertificateValidity
from mirror.worker.protocol import TaskSums
from monitor.records.record import IncidentRecord
from pinot.history.points import LatencyHistory, LoadHour


class ProcessUsage(NamedTuple):
    """Resource usage of an instance. `memory_bytes`: resident memory of all its processes; `cpu_cores`:
    average since the previous reading, None for the first. All None if the system does not report it."""

    processes: int | None = None
    memory_bytes: int | None = None
    cpu_cores: float | None = None


class InstanceStatus(Protocol):
    """Status of this instance. All properties are thread-safe."""

    @property
    def name(self) -> InstanceName:
        """Name of the instance."""
        ...

    @property
    def usage(self) -> ProcessUsage:
        """Memory and CPU usage of its processes."""
        ...

    @property
    def is_leading(self) -> bool:
        """True if it is the leader."""
        ...

    @property
    def epoch(self) -> Epoch:
        """Epoch of the plan in effect on it."""
        ...

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Its lanes."""
        ...

    @property
    def in_time(self) -> LanesInTime:
        """Counts of its lanes that copy in time, by group, and the lanes that do not."""
        ...

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """Totals of each task on this instance since its start."""
        ...

    @property
    def throttled_seconds(self) -> Mapping[ClusterRef, float]:
        """Seconds for which brokers have throttled workers, summed over workers, by cluster."""
        ...

    @property
    def illegal_topics(self) -> Mapping[ClusterRef, int]:
        """Number of listed topics ignored because of illegal names, by cluster; empty unless it is the
        leader."""
        ...

    @property
    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Clock skew of a broker by cluster, without clusters whose skew is unknown."""
        ...

    @property
    def strategies(self) -> Sequence[str]:
        """Names of the available placement strategies."""
        ...

    @property
    def load_providers(self) -> Sequence[str]:
        """Names of the load providers."""
        ...

    @property
    def drops(self) -> Mapping[str, Drops]:
        """Undelivered records of this instance by kind."""
        ...

    @property
    def data_planes(self) -> frozenset[str]:
        """Data planes of its workers: compiled, interpreted; empty until a worker is ready."""
        ...

    @property
    def workers(self) -> WorkerCount:
        """Number of worker processes, and number of crashes."""
        ...

    @property
    def conditions(self) -> Mapping[str, HealthCondition]:
        """Health of its components."""
        ...

    @property
    def readiness(self) -> Mapping[str, HealthCondition]:
        """Conditions of the process for serving, apart from its files. Independent of datastreams."""
        ...

    @property
    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Datastreams with problems; empty unless it is the leader."""
        ...

    @property
    def loads(self) -> Mapping[LoadSource, LoadStatus]:
        """State of the loads of each source; empty unless it is the leader."""
        ...

    def known_loads(self, source: LoadSource) -> ClusterLoads | None:
        """Return the known loads of the partitions of a source cluster; None unless it is the leader."""
        ...

    @property
    def load_sources(self) -> Mapping[GroupName, LoadSource]:
        """Load source that each group is planned by, from its last tick as leader."""
        ...

    @property
    def uncopied(self) -> Sequence[UncopiedLane]:
        """Partitions that are not copied; empty unless it is the leader."""
        ...

    @property
    def assessments(self) -> Mapping[GroupName, Assessment]:
        """Result of the last planning of each group; empty unless it is the leader."""
        ...

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """All datastreams, as this instance last read them."""
        ...

    @property
    def has_died(self) -> bool:
        """True if one of its components has died."""
        ...


@dataclass(frozen=True)
class Services:
    """Use cases, and state that is read without one."""

    control: Control
    acting: MonitorActions
    problems: ProblemStore
    status: InstanceStatus
    events: EventLog
    clock: Clock
    plan: Callable[[], Plan]
    assessments: Callable[[], Mapping[GroupName, Assessment]]
    """Result of the last planning of each group, by any leader."""
    service_name: str
    """Identifies this service among others in the same ZooKeeper: its root."""
    live: Callable[[], tuple[LiveInstance, ...]]
    previews: WorldView
    """Computes dry runs by the loads of this instance, which are those of the service if it leads."""
    proposals: ProposalStore
    operations: Operations
    default_destination: ClusterRef
    cluster_of_address: Callable[[str], ClusterRef]
    address_of_cluster: Callable[[ClusterRef], str]
    tls: frozenset[ClusterRef]
    """Clusters reached over TLS."""
    connectors: frozenset[str]
    """Names of Brooklin connectors that mean mirroring Kafka."""
    transports: frozenset[str]
    """Names of Brooklin transport providers that mean writing to Kafka."""
    progress: Callable[[ClusterRef, GroupName], StoredLanes]
    """Returns the stored progress of a group at a destination. Raises NothingStored, Unreachable."""
    progress_to_translate: Callable[[ClusterRef, ClusterRef, GroupName], StoredLanes]
    """Same for a source and a destination, including first offsets of lanes that have copied nothing."""
    restarts: RestartClusters
    """Compares the destination before a datastream is restarted."""
    lost: LostStore
    """Definitions lost from ZooKeeper."""
    restored: RestoredRecords
    """Writes the records that belong to a restored datastream."""
    group_positions: Callable[[TranslateJob], GroupPositions]
    """Returns the committed offsets of a consumer group on both sides. Raises NotAuthorized, Unreachable."""
    topics: Callable[[ClusterRef], Mapping[str, int] | None]
    """Returns partition counts by topic of a cluster; None if it does not respond in time."""
    is_zookeeper_answering: Callable[[], bool]
    """Returns the last known state, without a request."""
    secret: Callable[[], str]
    """Returns the secret shared by the instances of this service. Raises Unreachable, DamagedState."""
    transport: Callable[[], AsyncBaseTransport]
    """Returns the transport for HTTP requests to other instances."""
    fleet_deadline_seconds: float
    """Time to wait for another instance."""
    sleep: Callable[[float], Awaitable[None]]
    """Waits some seconds before a call polls again."""
    load_history: Callable[[LoadHistoryQuery], Mapping[TopicPartition | None, Sequence[LoadHour]]] = (
        no_history
    )
    """Returns the hourly loads of the requested partitions; key None: sum of all topics. Raises
    HistoryUnavailable, Unreachable, AnalyticsError."""
    latency_history: Callable[[LatencyHistoryQuery], LatencyHistory] = no_history
    """Returns the latency of records. Raises the same errors."""
    newest_advice: Callable[[], Advice | None] = lambda: None
    """Returns the leader's latest sizing advice. Raises Unreachable."""
    incidents: Callable[[], Sequence[IncidentRecord]] = tuple
    """Returns the monitor's incident records, newest first. Raises Unreachable, Refused, Busy."""
    usable_bytes_per_second: int | None = None
    """Capacity of a task for which the plan has none; None: placement ignores load."""
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

    def readiness(self) -> dict[str, HealthCondition]:
        """Return the conditions of this process for serving. Sentences name no files: they may be public."""
        tokens, certificate = self.access.has_readable_tokens, self.is_certificate_readable()
        log = "is unreadable; see the log"
        return {
            **self.status.readiness,
            "tokens": HealthCondition(tokens, "tokens are readable" if tokens else f"the token file {log}"),
            "certificate": HealthCondition(
                certificate, "is valid" if certificate else f"the certificate {log}"
            ),
        }
