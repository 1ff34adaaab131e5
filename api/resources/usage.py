"""/v1/usage: usage and transfer cost of each owner, datastream, topic and day."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import ServicesDep, SlowCallsDep
from api.http.problems import AnswerModel, RecordAnswer, problems
from api.http.slow_calls import large_response
from monitor.usage_bill import DAY_MS, OwnerUsage, UsageLine, by_owner
from pinot.time_range import TimeRange

router = APIRouter(tags=["status"], responses=problems(409))
MOST_DAYS: Final = 366
MOST_LINES: Final = 100_000


@dataclass(frozen=True)
class UsageLineAnswer(UsageLine, RecordAnswer):
    """Usage of one topic by one datastream on one day."""

    DESCRIPTIONS: ClassVar = {
        "day_ms": "Start of the day (UTC, epoch ms).",
        "owner": "Empty if the datastream no longer exists.",
        "datastream": "Name, or the group if no datastream of the group selects the topic now.",
        "source": "Source cluster.",
        "destination": "Destination cluster; empty if unknown.",
        "bytes": "Bytes copied, as fetched from the source, batch headers included.",
        "records": "Records copied.",
        "batches": "Batches written.",
        "cpu_seconds": "CPU time of workers.",
        "cost": "Transfer cost; null without a price.",
    }


@dataclass(frozen=True)
class OwnerUsageAnswer(OwnerUsage, RecordAnswer):
    """Usage of one owner over all days."""

    DESCRIPTIONS: ClassVar = {
        "owner": "Empty for datastreams that no longer exist.",
        "bytes": "Bytes copied.",
        "records": "Records copied.",
        "batches": "Batches written.",
        "cpu_seconds": "CPU time of workers.",
        "cost": "Transfer cost; null if the price of any line is unknown.",
        "quota_bytes_per_second": "Quota of the owner; null: unlimited.",
        "quota_share": "Mean rate as a share of the quota; null without a quota.",
    }


class UsageAnswer(AnswerModel):
    """Usage of whole days, today included."""

    since_ms: int
    until_ms: int
    """Time of the response (epoch ms)."""
    measured_by: str
    """Source of the measurements: `pinot`, or `topic` for the metrics topic."""
    currency: str
    """Currency of the costs."""
    owners: list[OwnerUsageAnswer]
    """Largest first."""
    lines: list[UsageLineAnswer]
    """One line for each day, owner, datastream and topic."""
    left_out: int
    """Number of lines omitted because of `limit`; the sums in `owners` include these lines."""


@router.get("/v1/usage", response_model=UsageAnswer)
async def usage(
    services: ServicesDep,
    calls: SlowCallsDep,
    response: Response,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="number of days, today included")] = 30,
    owner: Annotated[str | None, Query(description="only datastreams of this owner")] = None,
    datastream: Annotated[str | None, Query(description="only this datastream")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LINES, description="maximum number of lines")] = 10_000,
) -> Response:
    """Return the usage of the last days, from the mirror's measurements."""
    now_ms = services.clock.now_ms()
    since_ms = (now_ms // DAY_MS - days + 1) * DAY_MS
    report = await calls.run(partial(services.usage, TimeRange(since_ms, now_ms + 1)))
    lines = [
        line for line in report.lines if owner in (None, line.owner) and datastream in (None, line.datastream)
    ]

    def answer() -> Response:
        owners = by_owner(lines, report.quota_of, (now_ms - since_ms) / 1_000)
        found = UsageAnswer(
            since_ms=since_ms,
            until_ms=now_ms,
            measured_by=report.measured_by,
            currency=report.currency,
            owners=[OwnerUsageAnswer.of(owner_usage) for owner_usage in owners],
            lines=[UsageLineAnswer.of(line) for line in lines[:limit]],
            left_out=max(len(lines) - limit, 0),
        )
        return large_response(found, response)

    return await run_in_threadpool(answer)
