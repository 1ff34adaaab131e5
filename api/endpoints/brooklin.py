"""/datastream and /health as Brooklin's clients know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Body, Query, Request, Response

from api.dependencies import ServicesDep
from api.ignored import refuse_ignored
from api.restli import (
    CONNECTOR,
    OUR_CONNECTOR,
    Terms,
    damaged_to_restli,
    datastream_from_restli,
    datastream_to_restli,
    text_field,
)
from api.services import Services
from mirror.control.commands import ChangePauses, ChangeStatus, CreateDatastream, MovePartitions
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.errors import InvalidRequest
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

router = APIRouter(tags=["brooklin"])
_REST: Final = "Brooklin's REST"
"""Who asked, as far as that interface says."""


@router.post("/datastream", status_code=201)
def create(document: dict[str, Any], services: ServicesDep, request: Request) -> Response:
    """Create; the body is empty and the id is in a header, as Rest.li has it."""
    terms = Terms(
        services.cluster_of_address, services.default_destination, services.tls, services.connectors
    )
    datastream = datastream_from_restli(document, terms)
    refuse_ignored(datastream.metadata)
    stored = services.control.create(CreateDatastream(datastream))
    version = request.headers.get("X-RestLi-Protocol-Version", "1.0.0")
    header = "X-RestLi-Id" if version.startswith("2") else "X-LinkedIn-Id"
    key = quote(stored.name, safe="")
    return Response(status_code=201, headers={"Location": f"/datastream/{key}", header: key})


@router.get("/datastream")
def list_all(
    services: ServicesDep,
    start: Annotated[int, Query(ge=0)] = 0,
    count: Annotated[int | None, Query(ge=0)] = None,
    q: Annotated[str, Query(description="a finder of Rest.li; there is none here")] = "",
) -> dict[str, Any]:
    """Every datastream; paging only when it is asked for."""
    if q:
        raise InvalidRequest(f"there is no finder {q!r}", advice="get all, and choose from them")
    found = services.control.list()
    stored: list[Datastream | DamagedDefinition] = [one.datastream for one in found.readable]
    everything = sorted(stored + list(found.damaged), key=lambda one: one.name)
    page = everything[start : start + count] if count is not None else everything[start:]
    elements = [_element(one, services) for one in page]
    paging = {"start": start, "count": 10 if count is None else count, "links": []}
    return {"elements": elements, "paging": paging}


@router.get("/datastream/{name}")
def get(name: str, services: ServicesDep) -> dict[str, Any]:
    """One datastream."""
    found = services.control.look(DatastreamName(name))
    return _element(found if isinstance(found, DamagedDefinition) else found.datastream, services)


def _element(found: Datastream | DamagedDefinition, services: Services) -> dict[str, Any]:
    if isinstance(found, DamagedDefinition):
        return damaged_to_restli(found)
    return datastream_to_restli(found, services.address_of_cluster)


@router.delete("/datastream/{name}")
def delete(name: str, services: ServicesDep) -> Response:
    """Mark for removal."""
    services.control.delete(DatastreamName(name))
    return Response(status_code=200)


@router.post("/datastream/{name}")
def act(
    name: str, action: str, services: ServicesDep, body: Annotated[dict[str, Any] | None, Body()] = None
) -> Response:
    """Rest.li actions; those of Brooklin that answer nothing have no body here either."""
    key, given = DatastreamName(name), body or {}
    if action in {"pause", "resume", "stop"}:
        services.control.change_status(ChangeStatus(key, action, requested_by=_REST))
    elif action in {"pauseSourcePartitions", "resumeSourcePartitions"}:
        partitions = read_partitions(_texts(given, "sourcePartitions"))
        is_pause = action == "pauseSourcePartitions"
        services.control.change_pauses(ChangePauses(key, partitions, is_pause, "", _REST))
    elif action == "movePartitions":
        names = text_field(given, "partitions").split(",")
        moved = frozenset(TopicPartition.parse(one.strip()) for one in names)
        services.control.move(MovePartitions(key, moved, text_field(given, "targetHost"), _REST))
    else:
        raise InvalidRequest(
            f"there is no action {shown(action)}", advice="pause, resume, stop, movePartitions …"
        )
    return Response(status_code=200)


def _texts(body: dict[str, Any], field: str) -> dict[str, str]:
    value = body.get(field)
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InvalidRequest(
            f"{field} must map topics to partitions", advice='{"orders": "0,13,2", "users": "*"}'
        )
    return value


@router.get("/health")
async def health(services: ServicesDep) -> dict[str, Any]:
    """ServerHealth: connectors with their tasks on this instance. Waits for nothing."""
    connectors = {
        one.group: one.metadata.get(CONNECTOR, OUR_CONNECTOR) for one in services.status.datastreams
    }
    tasks: dict[str, list[LaneStatus]] = {}
    for _, state in sorted(services.status.lanes.items()):
        tasks.setdefault(state.spec.task, []).append(state)
    by_connector: dict[str, list[dict[str, Any]]] = {}
    for task, lanes in sorted(tasks.items()):
        connector = connectors.get(lanes[0].spec.key.group, OUR_CONNECTOR)
        by_connector.setdefault(connector, []).append(_task_health(task, lanes))
    return {
        "clusterName": services.service_name,
        "instanceName": services.status.name,
        "connectors": [{"connectorName": name, "tasks": found} for name, found in by_connector.items()],
    }


def _task_health(task: str, lanes: Sequence[LaneStatus]) -> dict[str, Any]:
    """ERROR where a lane stands still, with the reason; without a status while no lane has begun."""
    found = {
        "name": task,
        "datastreams": lanes[0].spec.key.group,
        "partitions": f"[{', '.join(str(one.spec.key.partition) for one in lanes)}]",
    }
    still = [one for one in lanes if one.phase in {LanePhase.PAUSED, LanePhase.WAITING}]
    if still:
        reason = f"{still[0].spec.key.partition}: {still[0].reason}"
        return {**found, "statusCode": "ERROR", "statusMessage": reason}
    if any(one.phase is LanePhase.COPYING for one in lanes):
        return {**found, "statusCode": "OK", "statusMessage": "OK"}
    return found
