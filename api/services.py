"""What the endpoints need, as one value that `headrace/wiring.py` fills in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from httpx import AsyncBaseTransport

from api.access.gate import Access
from api.access.settings import LimitSettings
from api.histories.questions import LatencyAsked, LoadsAsked, no_history
from api.settings import MetricSettings
from mirror.control.handlers import Control
from mirror.control.monitors.acts import Acting
from mirror.control.operations import Operations
from mirror.control.restarts.clusters import RestartClusters
from mirror.coordination.losses.records import RestoredRecords
from mirror.coordination.losses.store import LostStore
from mirror.coordination.planning import Decision, World
from mirror.coordination.proposed.proposal_store import ProposalStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.problems import Problem, ProblemStore
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.instance.health import Condition
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.watch import LoadStanding
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import WorkerCount
from mirror.instance.world_view import UpdatePreview
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
from mirror.worker.protocol import TaskSums
from monitor.records.record import IncidentRecord
from pinot.history.points import LatencyHistory, LoadHour


class ProcessUsage(NamedTuple):
    """Of an instance. `memory_bytes`: resident, of all its processes; `cpu_cores`: used on average since the
    look before, None at the first one. All None where the system does not say."""

    processes: int | None = None
    memory_bytes: int | None = None
    cpu_cores: float | None = None


class InstanceStatus(Protocol):
    """What this instance says of itself; every property is safe to read from any thread."""

    @property
    def name(self) -> InstanceName:
        """Its name."""
        ...

    @property
    def usage(self) -> ProcessUsage:
        """Memory and processor time of its processes."""
        ...

    @property
    def is_leading(self) -> bool:
        """Whether it leads."""
        ...

    @property
    def epoch(self) -> Epoch:
        """Of the plan that it obeys."""
        ...

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Its lanes."""
        ...

    @property
    def in_time(self) -> LanesInTime:
        """What there is to say of those that are in time."""
        ...

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """What each task did here since the instance began."""
        ...

    @property
    def throttled_seconds(self) -> Mapping[ClusterRef, float]:
        """By cluster, the seconds in which its brokers have throttled workers, summed over these."""
        ...

    @property
    def illegal_topics(self) -> Mapping[ClusterRef, int]:
        """By cluster, the listed topics that are ignored for their names; nothing where it does not lead."""
        ...

    @property
    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """By cluster, how far the clock of a broker is off; without those of which that is not known."""
        ...

    @property
    def strategies(self) -> Sequence[str]:
        """Names of the placement strategies that can be chosen here."""
        ...

    @property
    def load_providers(self) -> Sequence[str]:
        """Names of the load providers."""
        ...

    @property
    def drops(self) -> Mapping[str, Drops]:
        """By kind, the records of this instance that were not delivered."""
        ...

    @property
    def data_planes(self) -> frozenset[str]:
        """What its workers run: compiled, interpreted; nothing until one is ready."""
        ...

    @property
    def workers(self) -> WorkerCount:
        """How many worker processes there are, and how many have died."""
        ...

    @property
    def conditions(self) -> Mapping[str, Condition]:
        """What its parts say."""
        ...

    @property
    def readiness(self) -> Mapping[str, Condition]:
        """What of the process has to work for it to serve, apart from its files. No datastream counts."""
        ...

    @property
    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Datastreams that are set aside, where it leads."""
        ...

    @property
    def loads(self) -> Mapping[LoadSource, LoadStanding]:
        """What is known of the loads of each source, where it leads."""
        ...

    def known_loads(self, source: LoadSource) -> ClusterLoads | None:
        """What is known of the loads of a source cluster's partitions; None where it does not lead."""
        ...

    @property
    def load_sources(self) -> Mapping[GroupName, LoadSource]:
        """Of which loads each group is planned, by the last look of the leader that it is."""
        ...

    @property
    def uncopied(self) -> Sequence[UncopiedLane]:
        """Partitions that nobody copies, where it leads."""
        ...

    @property
    def assessments(self) -> Mapping[GroupName, Assessment]:
        """What the last planning of each group found, where it leads."""
        ...

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """Every datastream, as this instance read them last."""
        ...

    @property
    def has_died(self) -> bool:
        """Whether a part of it has died."""
        ...


@dataclass(frozen=True)
class Services:
    """Use cases, and what is read without one."""

    control: Control
    acting: Acting
    problems: ProblemStore
    status: InstanceStatus
    events: EventLog
    clock: Clock
    plan: Callable[[], Plan]
    assessments: Callable[[], Mapping[GroupName, Assessment]]
    """What the last planning of each group found, of any leader."""
    service_name: str
    """What distinguishes this service from others in the same ZooKeeper: its root."""
    live: Callable[[], tuple[LiveInstance, ...]]
    preview: Callable[[RebalanceRequest], Decision]
    preview_world: Callable[[RebalanceRequest], tuple[World, Decision]]
    """The same, with the world that it was decided for."""
    preview_move: Callable[[MoveRequest], UpdatePreview]
    """What would become of lanes and tasks if the leader carried this out."""
    proposals: ProposalStore
    operations: Operations
    preview_update: Callable[[Sequence[Datastream]], UpdatePreview]
    """What would become of lanes and tasks if these definitions were stored."""
    default_destination: ClusterRef
    cluster_of_address: Callable[[str], ClusterRef]
    address_of_cluster: Callable[[ClusterRef], str]
    tls: frozenset[ClusterRef]
    """Clusters that are reached through TLS."""
    connectors: frozenset[str]
    """Connector names of Brooklin's that stand for mirroring Kafka."""
    transports: frozenset[str]
    """Names of its transport providers that stand for writing into Kafka."""
    progress: Callable[[ClusterRef, GroupName], StoredLanes]
    """What a group of datastreams has stored at a destination. Raises NothingStored, Unreachable."""
    progress_to_translate: Callable[[ClusterRef, ClusterRef, GroupName], StoredLanes]
    """The same of a source and a destination, with the first offsets of lanes that have mirrored nothing."""
    restarts: RestartClusters
    """Compares the destination of a datastream that is to be restarted."""
    lost: LostStore
    """Definitions that ZooKeeper has lost."""
    restored: RestoredRecords
    """Records what belongs to a datastream that is restored."""
    group_positions: Callable[[TranslateJob], GroupPositions]
    """What a consumer group has committed on both sides. Raises NotAuthorized, Unreachable."""
    topics: Callable[[ClusterRef], Mapping[str, int] | None]
    """Partition counts by topic of a cluster; None: it does not answer in time."""
    is_zookeeper_answering: Callable[[], bool]
    """As far as is known without asking."""
    secret: Callable[[], str]
    """What only the instances of this service know. Raises Unreachable, DamagedState."""
    transport: Callable[[], AsyncBaseTransport]
    """What HTTP to the other instances goes through."""
    fleet_deadline_seconds: float
    """How long another instance is waited for."""
    sleep: Callable[[float], Awaitable[None]]
    """Lets a call wait some seconds before it looks again."""
    load_history: Callable[[LoadsAsked], Mapping[TopicPartition | None, Sequence[LoadHour]]] = no_history
    """Hours of the partitions that are asked for; of None: of all topics together. Raises HistoryUnavailable,
    Unreachable, AnalyticsError."""
    latency_history: Callable[[LatencyAsked], LatencyHistory] = no_history
    """How late records were. Raises the same."""
    newest_advice: Callable[[], Advice | None] = lambda: None
    """How the leader advised to size the service last. Raises Unreachable."""
    incidents: Callable[[], Sequence[IncidentRecord]] = tuple
    """What the monitor keeps, the newest first. Raises Unreachable, Refused, Busy."""
    usable_bytes_per_second: int | None = None
    """What a task may carry of which the plan says nothing; None: placement is not by load."""
    access: Access = field(default_factory=Access)
    """Who may call."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """What a caller may take of this instance."""
    metrics: MetricSettings = field(default_factory=MetricSettings)
    """How many partitions have series of their own."""
    is_certificate_readable: Callable[[], bool] = lambda: True
    """Whether a connection could be opened with the certificate of REST as it is now."""

    def readiness(self) -> dict[str, Condition]:
        """What this process needs to serve. Sentences name no files: they may be open to all."""
        tokens, certificate = self.access.has_readable_tokens, self.is_certificate_readable()
        log = "cannot be read; the log has why"
        return {
            **self.status.readiness,
            "tokens": Condition(tokens, "callers are known" if tokens else f"the token file {log}"),
            "certificate": Condition(certificate, "in order" if certificate else f"the certificate {log}"),
        }
