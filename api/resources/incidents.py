"""/v1/incidents: incidents of the monitor."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import ServicesDep
from api.http.problems import AnswerModel
from monitor.records.record import IncidentRecord

router = APIRouter(tags=["status"])


class TimelineAnswer(AnswerModel):
    """Entry in the timeline of an incident."""

    time_ms: int
    """Time of the last occurrence."""
    phase: Literal["detected", "classified", "acted", "decided", "recovered", "relapsed", "closed"]
    text: str
    """Observation, action or decision with its figures, number of occurrences, and first time."""
    times: int
    """Number of occurrences."""
    first_ms: int | None
    """Time of the first occurrence, if there was more than one."""


class BudgetCostAnswer(AnswerModel):
    """Remaining error budget of one objective, as fractions of the budget; null if unknown."""

    objective: str
    before: float | None
    """When the incident was detected."""
    now: float | None
    """At the last evaluation of the incident."""
    spent: float | None
    """Fraction of the budget that the incident has cost."""


class DeliveryCostAnswer(AnswerModel):
    """Late deliveries for one objective between start and end of an incident."""

    objective: str
    records: int
    """Number of records that arrived."""
    late: float
    """Number of records later than the objective; interpolated from a histogram and therefore fractional."""


class GainAnswer(AnswerModel):
    """Predicted and actual gain of the first rebalance of an incident, in seconds of breach after `acted_ms`;
    null if unknown."""

    acted_ms: int
    """Time at which the rebalance was requested."""
    left: float | None
    """Expected remaining duration of the breach without it, from earlier breaches without a rebalance."""
    predicted: float | None
    """Predicted reduction of that duration."""
    lasted: float | None
    """Actual remaining duration of the breach; null while it continues."""
    saved: float | None
    """`left` minus `lasted`; negative: the breach lasted longer than expected."""


class IncidentAnswer(AnswerModel):
    """Incident of a datastream, from start to end: records were later than an objective, were not copied, or
    were about to be lost."""

    id: str
    datastream: str
    cluster: str
    """Source cluster."""
    opened_ms: int
    closed_ms: int | None
    """Null while the incident is open."""
    worst_ms: float | None
    """Highest value of the objective's percentile; null if nothing arrived."""
    timeline: list[TimelineAnswer]
    left_out: int
    """Number of entries dropped from the middle of a long timeline."""
    is_late: bool
    """True if an objective is missed now; for a closed incident, if one was missed at the end."""
    matters: list[str]
    """Other problems, by alert names."""
    cause: str
    """Cause of most bad seconds; empty: not diagnosed."""
    evidence: dict[str, float | str]
    """Figures behind the cause, by name."""
    bad_seconds: float
    """Seconds of the incident with a problem."""
    unknown_seconds: float
    """Seconds of the incident without measurements."""
    judged_ms: int
    """Time up to which these seconds are counted."""
    costs: list[BudgetCostAnswer]
    """Cost in error budgets."""
    gain: GainAnswer | None
    """Null if no rebalance was requested."""
    deliveries: list[DeliveryCostAnswer] | None
    """Cost in records for each objective, counted half a minute after the end; null: unknown or not counted
    yet."""
    causes: dict[str, float]
    """Bad seconds by cause."""
    closing_ms: int | None
    """Time at which a recovered incident closes unless it relapses; null: not recovered."""

    @classmethod
    def from_record(cls, record: IncidentRecord) -> IncidentAnswer:
        """Return the JSON form."""
        costs = [{**asdict(cost), "spent": cost.spent} for cost in record.costs]
        gain = None if record.gain is None else {**asdict(record.gain), "saved": record.gain.saved}
        timeline = [{**asdict(one), "text": one.said} for one in record.timeline]
        return cls.model_validate({**asdict(record), "costs": costs, "gain": gain, "timeline": timeline})


@router.get("/v1/incidents")
async def incidents(
    services: ServicesDep,
    datastream: Annotated[str | None, Query(description="only incidents of this datastream")] = None,
    is_open: Annotated[
        bool | None, Query(alias="open", description="true: only open incidents; false: only closed ones")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="maximum number of incidents")] = 100,
) -> list[IncidentAnswer]:
    """List incidents of the monitor, newest first, from its topic; at most seconds old. Empty if no monitor
    has run."""
    found = await run_in_threadpool(services.incidents)
    wanted = (
        one
        for one in found
        if datastream in (None, one.datastream) and (is_open is None or one.is_open == is_open)
    )
    return [IncidentAnswer.from_record(one) for one in islice(wanted, limit)]
