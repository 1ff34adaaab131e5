"""What is known of the lanes of a datastream that is late. A number that is not known is None."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mirror.model.datastreams.lanes import QuotaHold
from monitor.movement.states import MovementState


class Phases(NamedTuple):
    """Where batches spent their latency, in ms: before they were fetched, while they were received, in our
    queue, and until the destination's acknowledgement."""

    wait: float
    fetch: float
    queue: float
    produce: float

    @property
    def total(self) -> float:
        """The latency."""
        return self.wait + self.fetch + self.queue + self.produce


class Origin(StrEnum):
    """What has left the backlog of a lane that has been behind since then."""

    CREATION = "creation"
    PAUSE = "pause"
    """A person resumed it."""
    OUTAGE = "outage"
    """It had paused itself, because a cluster or its worker process did not answer."""
    RESTART = "restart"
    """Another instance has taken it."""
    WORKER = "worker"
    """Its worker process was lost, and another one of the instance has taken it."""


@dataclass(frozen=True, slots=True)
class LaneEvidence:
    """What one lane did lately. Rates are per second.

    `task`: None where the plan gives the partition to none; `worker`: number of the worker process.
    `is_starting`: it looks for its position. `state`, `reason`, `eta_seconds`: as its movement is judged.
    `phases`: of a batch, on average. `cpu`: its part of the worker's, in cores; `worker_cpu`: cores that the
    worker process is busy with, for lanes of any datastream; `worker_waited`: the part of the time in which
    it had to wait for one. `fetch_unanswered`, `produce_unanswered`: for how many seconds its oldest requests
    have waited for their answers; None where these are not overdue. `hold`: a quota that holds it back.
    `origin`: of its backlog, where it has been behind since it began; `origin_ms`: when that happened.
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
    hold: QuotaHold | None = None
    origin: Origin | None = None
    origin_ms: int | None = None

    @property
    def waits_for_nothing(self) -> bool:
        """Return whether nothing waits for it now, and no answer is overdue."""
        is_answered = self.fetch_unanswered is None and self.produce_unanswered is None
        return self.lag_records == 0 and not self.lag_ms and is_answered


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one datastream. `silent`: instances that were not heard. `others`: lanes of datastreams that share
    tasks with it (`system.taskPrefix`)."""

    lanes: tuple[LaneEvidence, ...]
    silent: tuple[str, ...] = ()
    others: tuple[LaneEvidence, ...] = ()

    @property
    def of_tasks(self) -> tuple[LaneEvidence, ...]:
        """All lanes of the tasks that copy the datastream."""
        return (*self.lanes, *self.others)
