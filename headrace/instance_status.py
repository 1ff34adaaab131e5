"""Status of the running instance for REST. Satisfies `mirror.instance.snapshot.InstanceStatus`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import monotonic

from headrace.plug_ins.names import PlugInNames
from headrace.process.usage import UsageMeter
from mirror.coordination.stores.problems import Problem
from mirror.instance.follower import Follower
from mirror.instance.health import Health, HealthCondition
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.watch import LoadStatus
from mirror.instance.snapshot import ProcessUsage
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import Supervisor, WorkerCount
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.metrics import Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.worker.protocol import TaskSums


class RunningStatus:
    """Every property is safe to read from any thread."""

    def __init__(
        self,
        name: InstanceName,
        follower: Follower,
        supervisor: Supervisor,
        leader: Leader,
        health: Health,
        memory: LoadMemory,
        plug_ins: PlugInNames,
    ) -> None:
        self.name = name
        self._plug_ins = plug_ins
        self._supervisor = supervisor
        self._follower = follower
        self._leader = leader
        self._health = health
        self._memory = memory
        self._meter = UsageMeter(os.getpid(), monotonic)

    @property
    def usage(self) -> ProcessUsage:
        """Memory and CPU usage of the instance's processes."""
        return self._meter.look()

    @property
    def is_leading(self) -> bool:
        """True if the instance is the leader."""
        return self._leader.is_leading

    @property
    def epoch(self) -> Epoch:
        """Epoch of the plan that the instance executes."""
        return self._follower.epoch

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Status of the instance's lanes."""
        return self._follower.lanes

    @property
    def in_time(self) -> LanesInTime:
        """Summary of the lanes that keep up."""
        return self._follower.in_time

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """Sums of each task on this instance since it started."""
        return self._supervisor.task_sums

    @property
    def throttled_seconds(self) -> Mapping[ClusterRef, float]:
        """Seconds for which each cluster's brokers have throttled workers, summed over the workers."""
        return self._supervisor.throttled_seconds

    @property
    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Clock skew of a broker of each cluster; clusters with an unknown skew are omitted."""
        return self._supervisor.clock_skews

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of the available placement strategies."""
        return self._plug_ins.strategies

    @property
    def load_providers(self) -> tuple[str, ...]:
        """Names of the available load providers."""
        return self._plug_ins.load_providers

    @property
    def drops(self) -> Mapping[str, Drops]:
        """Undelivered records of this instance, by kind."""
        return self._follower.drops

    @property
    def data_planes(self) -> frozenset[str]:
        """Data planes of the workers, `compiled` or `interpreted`; empty until one is ready."""
        return self._supervisor.data_planes

    @property
    def workers(self) -> WorkerCount:
        """Number of worker processes, and number of crashes."""
        return self._supervisor.worker_count

    @property
    def conditions(self) -> Mapping[str, HealthCondition]:
        """Health of each part of the instance."""
        return self._health.conditions()

    @property
    def readiness(self) -> Mapping[str, HealthCondition]:
        """Conditions that the process needs in order to serve."""
        has_died, problem = self._health.has_died.is_set(), self._supervisor.start_problem
        return {
            "session": self._follower.session,
            "threads": HealthCondition(not has_died, "a thread has died" if has_died else "all running"),
            "workers": HealthCondition(not problem, problem or "worker processes start"),
        }

    @property
    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Problems of datastreams, by name; empty unless the instance leads."""
        return self._leader.problems

    @property
    def illegal_topics(self) -> Mapping[ClusterRef, int]:
        """Number of topics of each cluster that are ignored because of illegal names; empty unless the
        instance leads."""
        return self._leader.illegal_topics

    @property
    def loads(self) -> Mapping[LoadSource, LoadStatus]:
        """State of the loads of each source; empty unless the instance leads."""
        return self._leader.loads

    def known_loads(self, source: LoadSource) -> ClusterLoads | None:
        """Return the known loads of a source's partitions; None if the instance does not lead."""
        return self._memory.newest.known(source) if self._leader.is_leading else None

    @property
    def load_sources(self) -> Mapping[GroupName, LoadSource]:
        """Source of the loads that each group was last planned with, if the instance leads."""
        return self._memory.sources

    @property
    def uncopied(self) -> tuple[UncopiedLane, ...]:
        """Partitions that no instance copies; empty unless the instance leads."""
        return self._leader.uncopied

    @property
    def assessments(self) -> Mapping[GroupName, Assessment]:
        """Assessment of each group by its latest plan; empty unless the instance leads."""
        return self._leader.assessments

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """Every datastream, as this instance last read it."""
        return self._follower.datastreams

    @property
    def has_died(self) -> bool:
        """True if a part of the instance has died."""
        return self._health.has_died.is_set()
