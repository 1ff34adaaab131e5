"""Evidence from which late records are diagnosed: the state of a datastream's lanes. Unknown values are
None."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import QuotaHold, WindowLimit
from monitor.movement.states import MovementState


class Phases(NamedTuple):
    """Mean time that a batch spends in each phase of copying, in ms.

    Phases: wait at the source before the fetch, transfer from the source, wait in the queue of Headrace, and
    produce until the acknowledgement.
    """

    wait: float
    fetch: float
    queue: float
    produce: float

    @property
    def total(self) -> float:
        """Mean time that a batch spends in all phases together, in ms."""
        return self.wait + self.fetch + self.queue + self.produce


class BacklogOrigin(StrEnum):
    """Event since which a lane has been behind, because it caused the lane's backlog."""

    CREATION = "creation"
    PAUSE = "pause"
    """An operator paused the lane and has resumed it."""
    OUTAGE = "outage"
    """The lane had paused because a cluster or its worker process did not respond."""
    RESTART = "restart"
    """Another instance has taken over the lane, for example after a restart."""
    WORKER = "worker"
    """The worker process was lost, and another process of the same instance has taken over the lane."""
    INSTANCE = "instance"
    """The current or the former instance of the lane lost its ZooKeeper session."""


LOSSES: Final = frozenset({BacklogOrigin.WORKER, BacklogOrigin.INSTANCE})
"""Origins of a backlog that are the loss of a process."""


@dataclass(frozen=True, slots=True)
class LaneEvidence:
    """State and recent activity of one lane, which copies one partition. Rates are per second.

    `task`: None if the partition has no task. `worker`: number of the worker process. `is_starting`: the lane
    is determining its start position. `state`, `reason`, `eta_seconds`: movement state of the lane. `phases`:
    mean latency per batch. `cpu`: CPU use of the lane in cores. `worker_cpu`: CPU use of its worker process
    in cores. `worker_waited`: share of time for which the worker process waited for a core.
    `fetch_unanswered`, `produce_unanswered`: age of the oldest request without a response in seconds; None if
    no response is overdue. `source_window`, `destination_window`: TCP window of a distant broker that limits
    the rate; None if none does. `hold`: quota that throttles the lane. `origin`: event that caused the lane's
    backlog, if the lane has been late since that event. `origin_ms`: time of that event. `lost`: name of the
    lost instance. `timestamp_offset`: seconds by which the clocks of the partition's producers are ahead;
    negative if they are behind, 0 if they are correct.
    """

    partition: str
    instance: str = ""
    task: str | None = None
    worker: int | None = None
    is_starting: bool = False
    state: MovementState | None = None
    reason: str = ""
    eta_seconds: float | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    bytes_per_second: float | None = None
    batches_per_second: float = 0.0
    phases: Phases | None = None
    cpu: float | None = None
    worker_cpu: float | None = None
    worker_waited: float | None = None
    fetch_unanswered: float | None = None
    produce_unanswered: float | None = None
    source_window: WindowLimit | None = None
    destination_window: WindowLimit | None = None
    hold: QuotaHold | None = None
    origin: BacklogOrigin | None = None
    origin_ms: int | None = None
    lost: str = ""
    timestamp_offset: float | None = None

    @property
    def topic(self) -> str:
        """Topic of the partition."""
        return self.partition.rpartition("-")[0]

    @property
    def has_no_backlog(self) -> bool:
        """True if no records wait for the lane and no response is overdue."""
        is_answered = self.fetch_unanswered is None and self.produce_unanswered is None
        return self.lag_records == 0 and not self.lag_ms and is_answered


@dataclass(frozen=True, slots=True)
class Evidence:
    """State of all lanes of one datastream.

    `silent`: instances that did not respond. `others`: lanes of datastreams that share tasks with the late
    datastream (`system.taskPrefix`). `late`: times at which records were late, empty if unknown.
    """

    lanes: tuple[LaneEvidence, ...]
    silent: tuple[str, ...] = ()
    others: tuple[LaneEvidence, ...] = ()
    late: tuple[tuple[int, int], ...] = ()

    @property
    def of_tasks(self) -> tuple[LaneEvidence, ...]:
        """All lanes of the tasks that copy the datastream."""
        return (*self.lanes, *self.others)
