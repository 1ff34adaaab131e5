"""/v1/health, /v1/instances, /v1/lanes, /metrics"""

from __future__ import annotations

from http import HTTPStatus

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.dependencies import ReadsDep, ServicesDep
from api.schemas.lanes import LaneAnswer
from api.schemas.status import HealthAnswer, InstanceAnswer

router = APIRouter(tags=["status"])


@router.get("/v1/health", responses={503: {"model": HealthAnswer, "description": "A part is not well."}})
async def health(services: ServicesDep, response: Response) -> HealthAnswer:
    """200 when every part is well, else 503; each part says how it is. Waits for nothing."""
    found = HealthAnswer.from_status(services.status)
    response.status_code = HTTPStatus.OK if found.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/instances")
def instances(reads: ReadsDep) -> list[InstanceAnswer]:
    """Everybody here, the leader first."""
    return [InstanceAnswer.from_live(instance) for instance in reads.live()]


@router.get("/v1/lanes")
def lanes(services: ServicesDep) -> list[LaneAnswer]:
    """The lanes of this instance; of the leader also the partitions that nobody copies."""
    status, now_ms = services.status, services.clock.now_ms()
    mine = [LaneAnswer.from_lane(key, state) for key, state in sorted(status.lanes.items())]
    return mine + [LaneAnswer.from_uncopied(one, now_ms) for one in status.uncopied]


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Prometheus; waits for no other call."""
    registry = request.app.state.registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
