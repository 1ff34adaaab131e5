"""/v1/health, /v1/instances, /v1/lanes, /metrics"""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.dependencies import ServicesDep
from api.schemas.lanes import LaneAnswer

router = APIRouter(tags=["status"])


@router.get("/v1/health")
async def health(services: ServicesDep, response: Response) -> dict[str, Any]:
    """200 when every part is well, else 503; each part says how it is. Waits for nothing."""
    conditions = services.status.conditions
    is_well = all(condition.is_well for condition in conditions.values())
    response.status_code = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return {
        "instance": services.status.name,
        "is_well": is_well,
        "is_leading": services.status.is_leading,
        "epoch": services.status.epoch,
        "data_plane": ", ".join(sorted(services.status.data_planes)) or None,
        "parts": {part: asdict(condition) for part, condition in sorted(conditions.items())},
    }


@router.get("/v1/instances")
def instances(services: ServicesDep) -> list[dict[str, Any]]:
    """Everybody here, the leader first."""
    return [asdict(instance) for instance in services.live()]


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
