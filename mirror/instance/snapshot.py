"""Status of an instance, for REST, metrics and the other instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mirror.coordination.stores.problems import Problem
from mirror.instance.health import HealthCondition
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import WorkerCount
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.metrics import Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.worker.protocol import TaskSums


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
