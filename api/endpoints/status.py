"""/v1/health, /v1/ready, /v1/instances, /v1/lanes, /v1/movement, /v1/incidents, /metrics"""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.all_instances import AllInstances, lanes_answer, state_answer
from api.fleet.movements import movements
from api.movement.answers import MovementsAnswer
from api.schemas.lanes import LanesAnswer
from api.schemas.problems import problems
from api.schemas.status import HealthAnswer, IncidentAnswer, InstanceAnswer, ReadyAnswer

router = APIRouter(tags=["status"])


@router.get("/v1/health", responses={503: {"model": HealthAnswer, "description": "A part is not well."}})
async def health(services: ServicesDep, response: Response) -> HealthAnswer:
    """Return 200 if every part is well, else 503, with the condition of each part. Makes no remote calls."""
    found = HealthAnswer.from_status(services.status)
    response.status_code = HTTPStatus.OK if found.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/ready", responses={503: {"model": ReadyAnswer, "description": "The instance cannot serve."}})
async def ready(services: ServicesDep, response: Response) -> ReadyAnswer:
    """Return 200 if this process can serve, else 503: for probes. Problems of datastreams do not count. Makes
    no remote calls."""
    found = ReadyAnswer.from_conditions(services.status.name, services.readiness())
    response.status_code = HTTPStatus.OK if found.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/instances")
async def instances(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> list[InstanceAnswer]:
    """List live instances, the leader first, with their current health. Never waits for other calls."""
    live = await to_thread.run_sync(reads.live, limiter=CapacityLimiter(1))
    replies = await AllInstances(services, fleet, live).health()
    return [
        InstanceAnswer.from_live(one, state_answer(replies[one.name]), replies[one.name].value)
        for one in live
    ]


@router.get("/v1/lanes", responses=problems(404))
async def lanes(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    instance: Annotated[str | None, Query(description="only lanes of this instance")] = None,
    datastream: Annotated[str | None, Query(description="only lanes of this datastream or its group")] = None,
) -> LanesAnswer:
    """List the lanes of all instances; from the leader, also uncopied partitions. For the responding instance
    alone it makes no remote calls, not even to ZooKeeper, unless a datastream is given."""
    live = () if instance == services.status.name else await run_in_threadpool(reads.live)
    group = None if datastream is None else await run_in_threadpool(reads.group_of, datastream)
    return lanes_answer(await AllInstances(services, fleet, live, instance).lanes(group))


@router.get("/v1/movement")
async def movement(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> MovementsAnswer:
    """Summarize partitions that are not OK, by datastream: counts by state, the worst ones, and those about
    to lose records. `/v1/datastreams/{name}/lag` lists them."""
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    datastreams = (await run_in_threadpool(reads.definitions)).datastreams
    return MovementsAnswer.from_movements(await movements(services, fleet, live, plan, datastreams))


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


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus. Never waits for other calls."""
    registry = request.app.state.registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
