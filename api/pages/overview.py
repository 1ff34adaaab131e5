"""/v1/overview: data of the first page, open to any client."""

from __future__ import annotations

import asyncio
import gzip
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.dependencies import FleetDep, ReadsDep, ServicesDep
from api.errors import LegibleJson
from api.fleet.all_instances import AllInstances
from api.fleet.leader import ask_leader
from api.fleet.movements import movements
from api.fleet.questions import FleetQuery
from api.loads.heat import HEAT, heat_read, own_heat
from api.overview.answers import OverviewData, glances
from api.overview.schemas import OverviewAnswer
from api.overview.sums import SUMS, own_sums, sums_read
from api.schemas.problems import problems
from api.services import Services
from mirror.errors import AnalyticsError, Busy, NotFound, Refused, Unreachable
from mirror.model.bounds import shown
from monitor.records.record import IncidentRecord

router = APIRouter(prefix="/v1", tags=["status"])


@router.get("/overview", response_model=OverviewAnswer, responses=problems(404, 409))
async def overview(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    request: Request,
    response: Response,
    datastream: Annotated[str | None, Query(description="only this datastream")] = None,
) -> Response:
    """Return the status, objective, age of the oldest waiting record, throughput, tasks and problems of every
    datastream. Reports sums instead of partitions, to keep the response small. Queries each instance twice,
    and the leader three times."""
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    definitions = await run_in_threadpool(reads.definitions)
    replies, moving, heat = await asyncio.gather(
        AllInstances(services, fleet, live).ask(FleetQuery(SUMS), lambda: own_sums(services), sums_read),
        movements(services, fleet, live, plan, definitions.datastreams),
        ask_leader(services, fleet, live, FleetQuery(HEAT), lambda: own_heat(services), heat_read),
    )
    silent = [name for name, one in replies.items() if one.value is None]
    incidents = await run_in_threadpool(_incidents, services)

    def answer() -> bytes:
        seen = OverviewData(
            definitions,
            reads.problems(),
            plan,
            reads.assessments(),
            [one for reply in replies.values() for one in reply.value or ()],
            moving,
            incidents or (),
            not silent,
            services.usable_bytes_per_second,
            heat.value,
        )
        found = glances(seen, datastream)
        if datastream is not None and not found:
            raise NotFound(f"unknown datastream {shown(datastream)}", advice="/v1/overview lists them all")
        whole = OverviewAnswer(
            instances=len(replies),
            silent_instances=silent,
            is_complete=moving.is_complete and not silent,
            knows_incidents=incidents is not None,
            epoch=plan.epoch,
            datastreams=found,
        )
        return bytes(LegibleJson(whole.model_dump(mode="json")).body)

    return _sent(await run_in_threadpool(answer), request, response)


def _sent(body: bytes, request: Request, response: Response) -> Response:
    """Return the response, compressed if the client accepts it, because it is most of the first page's data.
    `response`: carries the headers of the reads."""
    headers = {**response.headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _incidents(services: Services) -> tuple[IncidentRecord, ...] | None:
    """Return the incidents, or None if they cannot be read now; the other parts do not depend on them."""
    try:
        return tuple(services.incidents())
    except (Unreachable, Refused, Busy, AnalyticsError):
        return None
