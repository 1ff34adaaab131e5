"""What REST shows of the running instance. Satisfies `api.services.InstanceStatus`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import monotonic

from api.services import ProcessUsage
from headrace.plug_ins.names import PlugInNames
from headrace.process.usage import UsageMeter
from mirror.coordination.stores.problems import Problem
from mirror.instance.follower import Follower
from mirror.instance.health import Condition, Health
from mirror.instance.leader import Leader
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.observations import LoadMemory
from mirror.instance.loads.watch import LoadStanding
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
    """Reads only what is safe from any thread."""

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
        """Memory and processor time of its processes."""
        return self._meter.look()

    @property
    def is_leading(self) -> bool:
        """Whether it leads."""
        return self._leader.is_leading

    @property
    def epoch(self) -> Epoch:
        """Of the plan that it obeys."""
        return self._follower.epoch

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Its lanes."""
        return self._follower.lanes

    @property
    def in_time(self) -> LanesInTime:
        """What there is to say of those that are in time."""
        return self._follower.in_time

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """What each task did here since the instance began."""
        return self._supervisor.task_sums

    @property
    def throttled_seconds(self) -> Mapping[ClusterRef, float]:
        """By cluster, the seconds in which its brokers have throttled workers, summed over these."""
        return self._supervisor.throttled_seconds

    @property
    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """By cluster, how far the clock of a broker is off; without those of which that is not known."""
        return self._supervisor.clock_skews

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names of the placement strategies that can be chosen here."""
        return self._plug_ins.strategies

    @property
    def load_providers(self) -> tuple[str, ...]:
        """Names of the load providers."""
        return self._plug_ins.load_providers

    @property
    def drops(self) -> Mapping[str, Drops]:
        """By kind, the records of this instance that were not delivered."""
        return self._follower.drops

    @property
    def data_planes(self) -> frozenset[str]:
        """What its workers run: compiled, interpreted; nothing until one is ready."""
        return self._supervisor.data_planes

    @property
    def workers(self) -> WorkerCount:
        """How many worker processes there are, and how many have died."""
        return self._supervisor.worker_count

    @property
    def conditions(self) -> Mapping[str, Condition]:
        """What its parts say."""
        return self._health.conditions()

    @property
    def readiness(self) -> Mapping[str, Condition]:
        """What of the process has to work for it to serve."""
        has_died, problem = self._health.has_died.is_set(), self._supervisor.start_problem
        return {
            "session": self._follower.session,
            "threads": Condition(not has_died, "one has died" if has_died else "all run"),
            "workers": Condition(not problem, problem or "processes can be started"),
        }

    @property
    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Datastreams that are set aside, where it leads."""
        return self._leader.problems

    @property
    def illegal_topics(self) -> Mapping[ClusterRef, int]:
        """By cluster, the listed topics that are ignored for their names, where it leads."""
        return self._leader.illegal_topics

    @property
    def loads(self) -> Mapping[LoadSource, LoadStanding]:
        """What is known of the loads of each source, where it leads."""
        return self._leader.loads

    def known_loads(self, source: LoadSource) -> ClusterLoads | None:
        """What is known of the loads of a source cluster's partitions; None where it does not lead."""
        return self._memory.newest.known(source) if self._leader.is_leading else None

    @property
    def load_sources(self) -> Mapping[GroupName, LoadSource]:
        """Of which loads each group is planned, by the last look of the leader that it is."""
        return self._memory.sources

    @property
    def uncopied(self) -> tuple[UncopiedLane, ...]:
        """Partitions that nobody copies, where it leads."""
        return self._leader.uncopied

    @property
    def assessments(self) -> Mapping[GroupName, Assessment]:
        """What the last planning of each group found, where it leads."""
        return self._leader.assessments

    @property
    def datastreams(self) -> tuple[Datastream, ...]:
        """Every datastream, as this instance read them last."""
        return self._follower.datastreams

    @property
    def has_died(self) -> bool:
        """Whether a part of it has died."""
        return self._health.has_died.is_set()
