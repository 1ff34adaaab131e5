"""/v1/incidents: incidents of the monitor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import ServicesDep
from api.http.problems import RecordAnswer, by_value
from monitor.records.record import (
    BudgetCost,
    DeliveryCost,
    IncidentRecord,
    Phase,
    RebalanceGain,
    TimelineEntry,
)

router = APIRouter(tags=["status"])


@dataclass(frozen=True)
class TimelineAnswer(TimelineEntry, RecordAnswer):
    """Entry in the timeline of an incident."""

    DESCRIPTIONS: ClassVar = {
        "time_ms": "Time of the last occurrence of the entry (epoch ms).",
        "text": "Observation, action or decision, with figures, number of occurrences, and first time.",
        "times": "Number of occurrences.",
        "first_ms": "Time of the first occurrence, if there was more than one.",
    }

    phase: Annotated[Phase, by_value(Phase)]


@dataclass(frozen=True)
class BudgetCostAnswer(BudgetCost, RecordAnswer):
    """Error budget of one objective that is left, as fractions of the whole budget; null if unknown."""

    DESCRIPTIONS: ClassVar = {
        "before": "Remaining budget when the incident was detected.",
        "now": "Remaining budget at the last evaluation of the incident.",
        "spent": "Fraction of the budget that the incident has cost.",
    }

    spent: float | None = None


@dataclass(frozen=True)
class DeliveryCostAnswer(DeliveryCost, RecordAnswer):
    """Number of records that arrived during an incident, and how many missed one objective."""

    DESCRIPTIONS: ClassVar = {
        "records": "Number of records that arrived.",
        "late": (
            "Number of records later than the objective; interpolated from a histogram and therefore "
            "fractional."
        ),
    }


@dataclass(frozen=True)
class GainAnswer(RebalanceGain, RecordAnswer):
    """Predicted and actual saving of the first rebalance of an incident, in seconds of breach after
    `acted_ms`. Null if unknown."""

    DESCRIPTIONS: ClassVar = {
        "acted_ms": "Time at which the rebalance was requested.",
        "left": ("Expected remaining duration of the breach without the rebalance, from earlier breaches."),
        "predicted": "Predicted reduction of the remaining duration.",
        "lasted": "Actual remaining duration of the breach; null while the breach continues.",
        "saved": "`left` minus `lasted`; negative if the breach lasted longer than expected.",
    }

    saved: float | None = None


@dataclass(frozen=True)
class IncidentAnswer(IncidentRecord, RecordAnswer):
    """Incident of a datastream, from start to end.

    Records were later than an objective allows, were not copied, or were about to be lost.
    """

    DESCRIPTIONS: ClassVar = {
        "cluster": "Source cluster.",
        "closed_ms": "Time at which the incident was closed (epoch ms); null while it is open.",
        "worst_ms": "Highest value of the objective's percentile in ms; null if no record arrived.",
        "left_out": "Number of entries dropped from the middle of a long timeline.",
        "is_late": "True if an objective is missed now; for a closed incident, if one was missed at the end.",
        "matters": "Names of alerts about other problems of the datastream.",
        "cause": "Cause of most of the bad seconds; empty if not diagnosed.",
        "evidence": "Figures behind the cause, by name.",
        "bad_seconds": "Number of seconds of the incident in which there was a problem.",
        "unknown_seconds": "Number of seconds of the incident for which measurements are missing.",
        "judged_ms": "Time up to which seconds are counted (epoch ms).",
        "costs": "Cost in error budgets.",
        "gain": "Gain of the first rebalance; null if no rebalance was requested.",
        "deliveries": (
            "Cost in records for each objective, counted half a minute after the end; null: unknown or not "
            "counted yet."
        ),
        "causes": "Bad seconds by cause.",
        "closing_ms": "Time at which a recovered incident closes unless the problem returns; else null.",
    }

    timeline: tuple[TimelineAnswer, ...] = ()
    costs: tuple[BudgetCostAnswer, ...] = ()
    gain: GainAnswer | None = None
    deliveries: tuple[DeliveryCostAnswer, ...] | None = None

    @classmethod
    def from_record(cls, record: IncidentRecord) -> IncidentAnswer:
        """Return a stored incident as a response."""
        return cls.of(
            record,
            timeline=[TimelineAnswer.of(entry, text=entry.text_with_times) for entry in record.timeline],
            costs=[BudgetCostAnswer.of(cost, spent=cost.spent) for cost in record.costs],
            gain=None if record.gain is None else GainAnswer.of(record.gain, saved=record.gain.saved),
        )


@router.get("/v1/incidents")
async def incidents(
    services: ServicesDep,
    datastream: Annotated[str | None, Query(description="only incidents of this datastream")] = None,
    is_open: Annotated[
        bool | None,
        Query(alias="open", description="true: only open incidents; false: only closed incidents"),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="maximum number of incidents")] = 100,
) -> list[IncidentAnswer]:
    """List the incidents that the monitor has stored in its topic, newest first.

    The list is at most a few seconds old. The list is empty if no monitor has run yet.
    """
    found = await run_in_threadpool(services.incidents)
    wanted = (
        record
        for record in found
        if datastream in (None, record.datastream) and (is_open is None or record.is_open == is_open)
    )
    return [IncidentAnswer.from_record(record) for record in islice(wanted, limit)]
