"""/datastream and /health as Brooklin's clients know them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Body, Query, Request, Response

from api.dependencies import ServicesDep
from api.errors import restli_problem
from api.ignored import refuse_ignored
from api.restli import (
    CONNECTOR,
    OUR_CONNECTOR,
    Terms,
    batch_keys,
    damaged_to_restli,
    datastream_changed_by,
    datastream_from_restli,
    datastream_to_restli,
    text_field,
)
from api.services import Services
from mirror.control.commands import (
    ChangePauses,
    ChangeStatus,
    CreateDatastream,
    MovePartitions,
    UpdateDatastream,
)
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.errors import HeadraceError, InvalidRequest
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


@router.put("/datastream/{name}")
def update(name: str, document: dict[str, Any], services: ServicesDep) -> Response:
    """Let a definition become another one; the answer has no body."""
    outcome = _updated({DatastreamName(name): document}, services)
    for error in outcome.values():
        if error is not None:
            raise error
    return Response(status_code=200)


@router.put("/datastream")
def batch_update(document: dict[str, Any], services: ServicesDep, request: Request) -> dict[str, Any]:
    """Let all datastreams of one group become other ones. All are checked before any is written."""
    version = request.headers.get("X-RestLi-Protocol-Version", "1.0.0")
    keys = batch_keys(request.url.query, version)
    entities = document.get("entities")
    if not isinstance(entities, dict) or set(entities) != set(keys):
        raise InvalidRequest("entities must have a definition for each of ids, and no other")
    outcome = _updated({DatastreamName(key): entities[key] for key in keys}, services)
    instance = services.status.name
    errors = {
        name: restli_problem(error, instance, secrets.token_hex(3))
        for name, error in outcome.items()
        if error is not None
    }
    return {"results": {name: {"status": 200} for name in outcome if name not in errors}, "errors": errors}


def _updated(
    documents: Mapping[DatastreamName, Any], services: Services
) -> dict[DatastreamName, HeadraceError | None]:
    """What became of each; the whole group is there. Raises NotFound, InvalidRequest."""
    commands = []
    for name, document in documents.items():
        if not isinstance(document, dict):
            raise InvalidRequest(f"the definition of {shown(name)} must be an object")
        before = services.control.stored(name)
        after = datastream_changed_by(
            before.datastream, document, services.cluster_of_address, services.address_of_cluster
        )
        commands.append(UpdateDatastream(before, after, requested_by=_REST))
    groups = {one.after.group for one in commands}
    if len(groups) > 1:
        raise InvalidRequest("Datastreams being updated do not form the same datastream group")
    members = {one.name for one in services.control.list().datastreams if one.group in groups}
    if missing := sorted(members - documents.keys()) if commands else []:
        raise InvalidRequest(
            f"Not all datastreams of the group are being updated: {', '.join(missing)} missing",
            advice="update the datastreams that share a task prefix together",
        )
    found = services.control.update_together(commands)
    return {name: one if isinstance(one, HeadraceError) else None for name, one in found.items()}


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
