"""Snapshot of an instance for REST, metrics and other instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror.coordination.stores.problems import Problem
from mirror.instance.backlog.watch import UncopiedLane
from mirror.instance.follower import Follower
from mirror.instance.health import Health, HealthCondition
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.observations import ClusterLoads, LoadMemory, NewestLoads
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.workers.lane_table import NONE_IN_TIME, LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import Supervisor
from mirror.instance.workers.worker_health import WorkerCount
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.metrics import Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.worker.protocol import TaskSums

_UNNAMED: Final = InstanceName("")
_NO_EPOCH: Final = Epoch(0)
_NO_WORKERS: Final = WorkerCount(0, 0, 0)


@dataclass(frozen=True)
class LoadSnapshot:
    """Known loads of partitions, from the leader's last tick."""

    states: Mapping[LoadSource, LoadStatus] = field(default_factory=dict)
    """State of the loads of each source; empty unless this instance leads."""
    newest: NewestLoads | None = None
    """Known loads of partitions; None unless this instance leads."""
    sources: Mapping[GroupName, LoadSource] = field(default_factory=dict)
    """Load source of each group, as of the last tick in which this instance led."""

    def known(self, source: LoadSource) -> ClusterLoads | None:
        """Return the known loads of a source's partitions, or None unless this instance leads."""
        return None if self.newest is None else self.newest.known(source)


_NO_LOADS: Final = LoadSnapshot()


@dataclass(frozen=True)
class InstanceSnapshot:
    """State of an instance at one time. The defaults describe an instance that has just started."""

    name: InstanceName = _UNNAMED
    is_leading: bool = False
    epoch: Epoch = _NO_EPOCH
    """Epoch of the plan that the instance follows."""
    lanes: Mapping[LaneKey, LaneStatus] = field(default_factory=dict)
    in_time: LanesInTime = NONE_IN_TIME
    """For each group, the number of lanes without late records; and all other lanes."""
    task_sums: Mapping[TaskName, TaskSums] = field(default_factory=dict)
    """Totals of each task on this instance since its start."""
    throttled_seconds: Mapping[ClusterRef, float] = field(default_factory=dict)
    """Seconds for which the brokers of each cluster have throttled, summed over all workers."""
    clock_skews: Mapping[ClusterRef, ClockSkew] = field(default_factory=dict)
    """Clock skew of a broker of each cluster. Clusters with an unknown skew are missing."""
    illegal_topics: Mapping[ClusterRef, int] = field(default_factory=dict)
    """Number of topics of each cluster ignored because of illegal names; empty unless this instance leads."""
    drops: Mapping[str, Drops] = field(default_factory=dict)
    """Numbers of measurements and of events that this instance could not deliver."""
    data_planes: frozenset[str] = frozenset()
    """Variants of the data plane (compiled, interpreted) that the workers run; empty until a worker is
    ready."""
    workers: WorkerCount = _NO_WORKERS
    conditions: Mapping[str, HealthCondition] = field(default_factory=dict)
    """Health of each component of the instance."""
    readiness: Mapping[str, HealthCondition] = field(default_factory=dict)
    """Conditions for serving requests. Independent of datastreams and of local files."""
    problems: Mapping[DatastreamName, Problem] = field(default_factory=dict)
    """Datastreams with problems; empty unless this instance leads."""
    loads: LoadSnapshot = _NO_LOADS
    uncopied: tuple[UncopiedLane, ...] = ()
    """Partitions that are not copied; empty unless this instance leads."""
    assessments: Mapping[GroupName, Assessment] = field(default_factory=dict)
    """Result of the latest planning run of each group; empty unless this instance leads."""
    datastreams: tuple[Datastream, ...] = ()
    """All datastreams, as this instance last read them."""


@dataclass(frozen=True)
class RunningInstance:
    """Components of a running instance."""

    name: InstanceName
    follower: Follower
    supervisor: Supervisor
    leader: Leader
    health: Health
    memory: LoadMemory

    def snapshot(self) -> InstanceSnapshot:
        """Return the current state of the instance. Thread-safe, and without I/O."""
        follower, supervisor, leader = self.follower, self.supervisor, self.leader.state
        return InstanceSnapshot(
            name=self.name,
            is_leading=leader.is_leading,
            epoch=follower.epoch,
            lanes=follower.view.lanes,
            in_time=follower.view.in_time,
            task_sums=supervisor.measurements.task_sums,
            throttled_seconds=supervisor.measurements.throttled_seconds,
            clock_skews=supervisor.measurements.clock_skews,
            illegal_topics=leader.illegal_topics,
            drops=follower.condition.drops,
            data_planes=supervisor.health.data_planes,
            workers=supervisor.health.count,
            conditions=self.health.conditions(),
            readiness=self._readiness(),
            problems=leader.problems,
            loads=LoadSnapshot(
                leader.loads, self.memory.newest if leader.is_leading else None, self.memory.sources
            ),
            uncopied=leader.uncopied,
            assessments=leader.assessments,
            datastreams=follower.datastreams,
        )

    def _readiness(self) -> Mapping[str, HealthCondition]:
        has_died, problem = self.health.has_died.is_set(), self.supervisor.health.start_problem
        return {
            "session": self.follower.session,
            "threads": HealthCondition(not has_died, "a thread has died" if has_died else "all running"),
            "workers": HealthCondition(not problem, problem or "worker processes start"),
        }
