"""/v1/health, /v1/instances, /v1/lanes, /metrics"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.all_instances import AllInstances
from api.fleet.questions import Reply
from api.schemas.lanes import LanesAnswer
from api.schemas.problems import problems
from api.schemas.status import HealthAnswer, InstanceAnswer, InstanceStateAnswer

router = APIRouter(tags=["status"])


@router.get("/v1/health", responses={503: {"model": HealthAnswer, "description": "A part is not well."}})
async def health(services: ServicesDep, response: Response) -> HealthAnswer:
    """200 when every part is well, else 503; each part says how it is. Waits for nothing."""
    found = HealthAnswer.from_status(services.status)
    response.status_code = HTTPStatus.OK if found.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/instances")
async def instances(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> list[InstanceAnswer]:
    """Everybody here, the leader first, with what each says of its health when it is asked now."""
    live = await run_in_threadpool(reads.live)
    replies = await AllInstances(services, fleet, live).health()
    return [InstanceAnswer.from_live(one, _state(replies[one.name]), replies[one.name].value) for one in live]


@router.get("/v1/lanes", responses=problems(404))
async def lanes(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    instance: Annotated[str | None, Query(description="only what this instance says")] = None,
) -> LanesAnswer:
    """The lanes of all instances; of the leader also the partitions that nobody copies. Of the instance that
    is asked it needs nobody else, not even ZooKeeper."""
    live = () if instance == services.status.name else await run_in_threadpool(reads.live)
    replies = (await AllInstances(services, fleet, live, instance).lanes()).values()
    return LanesAnswer(
        instances=[_state(one) for one in replies],
        lanes=[lane for one in replies for lane in one.value or ()],
    )


def _state(reply: Reply[Any]) -> InstanceStateAnswer:
    return InstanceStateAnswer(name=reply.instance, state=reply.state.value, reason=reply.reason)


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Prometheus; waits for no other call."""
    registry = request.app.state.registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
