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
    """200 when every part is well, else 503; each part says how it is. Waits for nothing."""
    found = HealthAnswer.from_status(services.status)
    response.status_code = HTTPStatus.OK if found.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/ready", responses={503: {"model": ReadyAnswer, "description": "It cannot serve."}})
async def ready(services: ServicesDep, response: Response) -> ReadyAnswer:
    """Return 200 when this process can serve, else 503: for probes. Datastreams do not count. Waits for
    nothing."""
    found = ReadyAnswer.from_conditions(services.status.name, services.readiness())
    response.status_code = HTTPStatus.OK if found.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/instances")
async def instances(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> list[InstanceAnswer]:
    """Everybody here, the leader first, with what each says of its health when it is asked now. Waits for no
    thread that other calls have."""
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
    instance: Annotated[str | None, Query(description="only what this instance says")] = None,
    datastream: Annotated[str | None, Query(description="only those of this one, or of its group")] = None,
) -> LanesAnswer:
    """The lanes of all instances; of the leader also the partitions that nobody copies. Of the instance that
    is asked it needs nobody else, not even ZooKeeper, unless a datastream is named."""
    live = () if instance == services.status.name else await run_in_threadpool(reads.live)
    group = None if datastream is None else await run_in_threadpool(reads.group_of, datastream)
    return lanes_answer(await AllInstances(services, fleet, live, instance).lanes(group))


@router.get("/v1/movement")
async def movement(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> MovementsAnswer:
    """What the partitions of every datastream do that are not OK: how many are in each state, the worst of
    them, and those that will lose records. `/v1/datastreams/{name}/lag` has them one by one."""
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    datastreams = (await run_in_threadpool(reads.definitions)).datastreams
    return MovementsAnswer.from_movements(await movements(services, fleet, live, plan, datastreams))


@router.get("/v1/incidents")
async def incidents(
    services: ServicesDep,
    datastream: Annotated[str | None, Query(description="only those of this one")] = None,
    is_open: Annotated[
        bool | None, Query(alias="open", description="only those that last, or only those that are over")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many")] = 100,
) -> list[IncidentAnswer]:
    """What the monitor found and did, the newest first, as it keeps it in its topic; seconds old at most.
    Nothing where no monitor has run."""
    found = await run_in_threadpool(services.incidents)
    wanted = (
        one
        for one in found
        if datastream in (None, one.datastream) and (is_open is None or one.is_open == is_open)
    )
    return [IncidentAnswer.from_record(one) for one in islice(wanted, limit)]


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Prometheus; waits for no other call."""
    registry = request.app.state.registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
