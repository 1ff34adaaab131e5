"""Endpoints of /datastream, compatible with Brooklin's clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import anyio.to_thread
from fastapi import APIRouter, Depends, Request, Response

from api.brooklin import actions
from api.brooklin.actions import REST
from api.brooklin.metadata_keys import refuse_ignored
from api.brooklin.protocol import (
    METHOD,
    CollectionPage,
    RoutingRefusal,
    chosen_fields,
    collection,
    in_brooklins_words,
    path_of,
    protocol_of,
    restli_problem,
    unknown,
    unsupported,
)
from api.brooklin.restli import (
    RestliConfiguration,
    UnknownConnector,
    UnknownTransport,
    batch_keys,
    damaged_to_restli,
    datastream_changed_by,
    datastream_from_restli,
    datastream_to_restli,
    plain,
)
from api.fleet.dependencies import ReadsDep, ServicesDep
from api.fleet.reads import Reads
from api.http.middleware import caller_of
from api.services import Services
from mirror.control.commands import ChangeStatus, CreateDatastream, UpdateDatastream
from mirror.coordination.brooklin import PAUSED_PARTITIONS, paused_partitions
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.errors import AlreadyExists, HeadraceError, InvalidRequest, NotFound
from mirror.model.bounds import shown
from mirror.model.datastreams.creation import Creation, creation_of
from mirror.model.datastreams.datastream import Datastream, Halt
from mirror.model.datastreams.metadata import BROKERS, GROUP_ID, MANAGED, TASK_PREFIX, UUID
from mirror.model.datastreams.pauses import paused
from mirror.model.documents import parsed
from mirror.model.identifiers import DatastreamName

router = APIRouter(tags=["brooklin"])


_REASON: Final = PAUSED_PARTITIONS


def definition_of(document: Mapping[str, Any], services: Services) -> Datastream:
    """Parse a definition from a Brooklin client, without metadata that the service derives itself.

    Raises InvalidRequest, for example for unsupported metadata.
    """
    terms = RestliConfiguration(
        services.cluster_of_address,
        services.default_destination,
        services.tls,
        services.connectors,
        services.transports,
    )
    datastream = datastream_from_restli(document, terms)
    brokers = datastream.metadata.get(BROKERS, "")
    if brokers and services.cluster_of_address(brokers) != datastream.destination:
        raise InvalidRequest(
            f"metadata {BROKERS} is {shown(brokers)}, which is not the destination",
            advice="set destination.connectionString and remove this key",
        )
    metadata = without_stamps(datastream)
    pauses = paused_partitions(metadata)
    metadata.pop(PAUSED_PARTITIONS, None)
    refuse_ignored(metadata)
    return replace(
        datastream,
        metadata=metadata,
        pauses=paused({}, pauses, Halt(_REASON, services.clock.now_ms(), REST)),
        creation=_creation(document, datastream, services.control.caller.name),
    )


def without_stamps(datastream: Datastream) -> dict[str, str]:
    """Remove the metadata keys that `api.brooklin.restli` adds to responses. A client that writes back a
    definition would otherwise store these keys."""
    stamps = {BROKERS: datastream.metadata.get(BROKERS), MANAGED: "true"}
    stamps |= {TASK_PREFIX: datastream.name, GROUP_ID: datastream.name}
    return {key: value for key, value in datastream.metadata.items() if stamps.get(key) != value}


def _creation(document: Mapping[str, Any], datastream: Datastream, principal: str) -> Creation | None:
    """Return the record that makes a retried creation over Brooklin's interface idempotent; None without an
    id.

    Brooklin's client assigns an id to each creation, and sends the same id when it retries. The name is part
    of the key, because a definition that a client copies under another name contains the id of the original.
    """
    identity = datastream.metadata.get(UUID, "")
    if not identity:
        return None
    return creation_of(UUID, f"{identity} {datastream.name}", document, principal)


_FINDER: Final = "findGroup"


async def _document(request: Request) -> dict[str, Any]:
    """Return the request body parsed as JSON, whatever its media type. A missing body counts as an empty
    object."""
    body = await request.body()
    found = parsed(body) if body else {}
    if not isinstance(found, dict):
        raise RoutingRefusal("Cannot parse request entity")
    return found


DocumentDep = Annotated[dict[str, Any], Depends(_document)]


@router.post("/datastream", status_code=201)
def create(document: DocumentDep, services: ServicesDep, request: Request) -> Response:
    """Create a datastream. As in Rest.li, the response body is empty and a header contains the name."""
    if request.headers.get(METHOD, "create") != "create" or "action" in request.query_params:
        raise unsupported("POST", _target(request), request.headers)
    name = plain(document.get("name", ""))
    with in_brooklins_words(
        {
            UnknownConnector: f"Failed to initialize Datastream: {name}",
            UnknownTransport: f"Failed to initialize Datastream: {name}",
            AlreadyExists: f"Datastream with the same name already exists: {name}",
            InvalidRequest: "Invalid input params for create request",
        }
    ):
        definition, caller = definition_of(document, services), caller_of(request, "")
        command = CreateDatastream(definition, requested_by=f"{actions.REST}, {caller}")
        created = services.control.creations.create(command)
    stored = created.datastream
    answer = Response(status_code=201, headers={"Location": path_of(stored.name)})
    # Raw bytes, because Starlette would require the name to be Latin-1.
    answer.raw_headers.append((protocol_of(request.headers).id_header.lower().encode(), stored.name.encode()))
    return answer


@router.get("/datastream")
def list_all(services: ServicesDep, reads: ReadsDep, request: Request) -> dict[str, Any]:
    """List all datastreams or one page, or run a Rest.li finder."""
    query = request.query_params
    if "q" in query:
        found = _found(query["q"], reads, request)
    elif "ids" in query or "action" in query:
        raise unsupported("GET", _target(request), request.headers)
    else:
        found = _all(reads)
    page, chosen = CollectionPage.of(query), chosen_fields(query)
    shown = page.of_all(found) if "q" not in query else found
    return collection(
        [chosen(_element(datastream, services)) for datastream in shown], page, request.url.path, query
    )


def _all(reads: Reads) -> list[Datastream | DamagedDefinition]:
    found = reads.definitions()
    stored: list[Datastream | DamagedDefinition] = [stored.datastream for stored in found.readable]
    return sorted(stored + list(found.damaged), key=lambda datastream: datastream.name)


def _found(finder: str, reads: Reads, request: Request) -> list[Datastream | DamagedDefinition]:
    """Return the datastreams that share tasks with the datastream in the query, for Brooklin's finder."""
    if finder != _FINDER:
        raise unknown("GET", finder, _target(request))
    name = request.query_params.get("datastreamName")
    if name is None:
        raise RoutingRefusal("Parameter 'datastreamName' is required")
    with in_brooklins_words({NotFound: f"Datastream not found: {plain(name)}"}, cause="None"):
        group = reads.stored(DatastreamName(name)).datastream.group
    return [datastream for datastream in reads.definitions().datastreams if datastream.group == group]


@router.get("/datastream/{name:path}")
def get(name: str, services: ServicesDep, reads: ReadsDep, request: Request) -> dict[str, Any]:
    """Return one datastream."""
    if "action" in request.query_params:
        raise unsupported("GET", _target(request), request.headers)
    chosen = chosen_fields(request.query_params)
    with in_brooklins_words({NotFound: f"Datastream not found: {plain(name)}"}, cause="None"):
        found = reads.definition(DatastreamName(name))
    return chosen(_element(found if isinstance(found, DamagedDefinition) else found.datastream, services))


def _element(found: Datastream | DamagedDefinition, services: Services) -> dict[str, Any]:
    if isinstance(found, DamagedDefinition):
        return damaged_to_restli(found)
    return datastream_to_restli(found, services.address_of_cluster)


@router.put("/datastream/{name:path}")
def update(name: str, document: DocumentDep, services: ServicesDep) -> Response:
    """Replace a definition. The response has no body."""
    outcome = _updated({DatastreamName(name): document}, services)
    for error in outcome.values():
        if error is not None:
            raise error
    return Response(status_code=200)


@router.put("/datastream")
def batch_update(document: DocumentDep, services: ServicesDep, request: Request) -> dict[str, Any]:
    """Replace the definitions of all datastreams of one group.

    All definitions are checked before any of them is written.
    """
    keys = batch_keys(request.url.query, protocol_of(request.headers).text)
    entities = document.get("entities")
    if not isinstance(entities, dict) or set(entities) != set(keys):
        raise InvalidRequest("entities must have exactly one definition for each name in ids")
    outcome = _updated({DatastreamName(key): entities[key] for key in keys}, services)
    instance = services.status.name
    errors = {name: restli_problem(error, instance) for name, error in outcome.items() if error is not None}
    return {"results": {name: {"status": 200} for name in outcome if name not in errors}, "errors": errors}


def _updated(
    documents: Mapping[DatastreamName, Any], services: Services
) -> dict[DatastreamName, HeadraceError | None]:
    """Update all datastreams of a group. Map each name to its error, or to None if it was updated. Raises
    NotFound, InvalidRequest."""
    commands = []
    for name, document in documents.items():
        if not isinstance(document, dict):
            raise InvalidRequest(f"the definition of {shown(name)} must be an object")
        with in_brooklins_words(
            {NotFound: f"Datastream to update does not exist: {plain(name)}"}, cause="None"
        ):
            before = services.control.stored(name)
        after = datastream_changed_by(
            before.datastream, document, services.cluster_of_address, services.address_of_cluster
        )
        commands.append(UpdateDatastream(before, after, requested_by=actions.REST))
    groups = {command.after.group for command in commands}
    if len(groups) > 1:
        raise InvalidRequest("Datastreams being updated do not form the same datastream group")
    members = {
        datastream.name for datastream in services.control.list().datastreams if datastream.group in groups
    }
    if missing := sorted(members - documents.keys()) if commands else []:
        raise InvalidRequest(
            f"Not all datastreams of the group are being updated: {', '.join(missing)} missing",
            advice="update the datastreams that share a task prefix together",
        )
    found = services.control.update_together(commands)
    return {name: outcome if isinstance(outcome, HeadraceError) else None for name, outcome in found.items()}


@router.delete("/datastream/{name:path}")
def delete(name: str, services: ServicesDep, request: Request) -> Response:
    """Delete a datastream."""
    caller = f"{actions.REST}, {caller_of(request, '')}"
    with in_brooklins_words(
        {NotFound: f"Datastream requested to be deleted does not exist: {plain(name)}"}, cause="None"
    ):
        services.control.delete(ChangeStatus(DatastreamName(name), "delete", requested_by=caller))
    return Response(status_code=200)


@router.post("/datastream/{name:path}")
async def act(name: str, given: DocumentDep, services: ServicesDep, request: Request) -> Any:
    """Run a Rest.li action on a datastream. As in Brooklin, the response to an action without a result has no
    body."""
    action = request.query_params.get("action")
    if action is None or request.headers.get(METHOD, "action") != "action":
        raise unsupported("POST", _target(request), request.headers)
    key = DatastreamName(name)
    if action in actions.STATUS_ACTIONS:
        await actions.change_status(key, action, given, services)
    elif action in actions.PAUSE_ACTIONS:
        await anyio.to_thread.run_sync(actions.change_pauses, key, action, given, services)
    elif action == "movePartitions":
        await anyio.to_thread.run_sync(actions.move, key, given, services)
    elif action == "getTaskAssignment":
        instance = await anyio.to_thread.run_sync(actions.instance_of_task, key, given, services)
        return {"value": instance}
    else:
        raise unknown("POST", action, _target(request))
    return Response(status_code=200)


def _target(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
