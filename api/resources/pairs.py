"""/v1/dr: pairs of clusters whose roles `headrace dr` exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep, SlowCallsDep
from api.http.problems import AnswerModel
from api.resources.partitions.lags import lag_now
from mirror.errors import HeadraceError
from mirror.jobs.dr.fork import TailDecision
from mirror.jobs.dr.operation import BegunOperation, Kind, PastSwitchover

router = APIRouter(tags=["status"])


class PairOperationAnswer(BegunOperation, AnswerModel):
    """Operation of a pair that is in progress.

    Repeating the command that started the operation continues it; `headrace dr abort` undoes it.
    """

    kind: Kind
    operator: str
    """User who started the operation."""
    step: str
    """Step in progress. The action of a step may be partly done."""
    reached: str
    """Last step of the sequence that has been started."""
    failure: str
    """Reason why the operation is being undone; empty if it is not being undone."""


class TopicLossAnswer(AnswerModel):
    """Records of a topic that a failure of the active cluster would lose now."""

    topic: str
    records: int
    bytes: int | None
    """Estimated size of the records that a failure would lose; null if unknown. Only the command line
    interface estimates the size."""
    seconds: float
    """Age of the oldest record that a failure would lose."""
    unknown: int
    """Number of partitions whose lag is unknown; the sums do not include these partitions."""


class PlannedStepAnswer(AnswerModel):
    """Step of the operation in progress or, without an operation, of a switch-over to the other cluster."""

    step: str
    action: str


class PairForkAnswer(AnswerModel):
    """Failover without a failback so far. Copying between the clusters resumes with the failback."""

    cluster: str
    """The lost cluster."""
    at_ms: int
    figure: str
    """Loss of records that the operator accepted, as text."""
    decisions: list[TailDecision]
    """Decisions about the records that only the lost cluster has."""


class PairAnswer(AnswerModel):
    """State of a pair of clusters, as `headrace dr status --json` prints it."""

    pair: str
    state: str
    """steady, failing-over, failed-over, failing-back, degraded (the loss of a failure would exceed the
    target, or is unknown) or unknown."""
    active: str | None
    """Cluster that producers write to; null if the state is unknown."""
    operation: PairOperationAnswer | None
    fork: PairForkAnswer | None
    """Failover that has not been followed by a failback; null if there is none."""
    datastreams: dict[str, str]
    """Current name of each datastream, by the name in the settings."""
    topics: list[TopicLossAnswer]
    problems: list[str]
    plan: list[PlannedStepAnswer]
    """Remaining steps of the operation in progress; if there is none, the steps of a switch-over to the other
    cluster, or of the failback after a failover."""
    failover: list[PlannedStepAnswer]
    """Steps of a failover to the other cluster; empty during an operation and after a failover."""
    history: list[PastSwitchover]
    """Past operations, oldest first."""


@router.get("/v1/dr")
async def pairs(
    services: ServicesDep, reads: ReadsDep, fleet: FleetDep, calls: SlowCallsDep
) -> list[PairAnswer]:
    """List the pairs of clusters in the settings of this instance, with their state and plan."""
    found = []
    for pair in await calls.run(services.pairs):
        lags: dict[str, Sequence[Mapping[str, Any]] | HeadraceError] = {}
        for name in pair.datastreams:
            try:
                lag = await lag_now(name, services, reads, fleet)
                lags[name] = [partition.model_dump() for partition in lag.partitions]
            except HeadraceError as error:
                lags[name] = error
        found.append(PairAnswer.model_validate(pair.document(lags)))
    return found
