"""/health and /diag, compatible with Brooklin's clients."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from api.brooklin.collections import CollectionPage, chosen_fields, collection
from api.brooklin.diagnostics import component_health, connectors_known, status_element
from api.brooklin.protocol import unsupported
from api.brooklin.refusals import RoutingRefusal
from api.brooklin.server_health import connectors_of
from api.dependencies import FleetDep, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.all_instances import AllInstances
from api.fleet.answers import DIAGNOSTICS, element_read
from api.fleet.questions import FleetQuery
from api.services import Services
from mirror.model.bounds import shown

router = APIRouter(tags=["brooklin"])
_FINDERS: Final = {"status", "allStatus"}
_TYPE: Final = "connector"
_DEADLINE_SECONDS: Final = 10.0
"""Time for an instance to read stored state from clusters."""


@router.get("/health")
async def health(services: ServicesDep, request: Request) -> dict[str, Any]:
    """Return ServerHealth: connectors with their tasks on this instance. Makes no remote calls."""
    status = services.status
    lanes = [state for _, state in sorted(status.lanes.items())]
    return chosen_fields(request.query_params)(
        {
            "clusterName": services.service_name,
            "instanceName": status.name,
            "connectors": connectors_of(lanes, status.datastreams, services.address_of_cluster),
        }
    )


@router.get("/diag")
async def diagnose(
    services: ServicesDep, slow_calls: SlowCallsDep, reads: ReadsDep, fleet: FleetDep, request: Request
) -> dict[str, Any]:
    """Return a ServerComponentHealth: of this instance (`q=status`), or of all instances (`q=allStatus`)."""
    query = request.query_params
    finder = query.get("q")
    if finder not in _FINDERS:
        target = f"{request.url.path}?{request.url.query}"
        raise unsupported("GET", target, request.headers)
    kind, scope, content = (_parameter(query.get(name), name) for name in ("type", "scope", "content"))
    if kind != _TYPE or scope not in connectors_known(services):
        raise RoutingRefusal(f"Unknown component: {shown(kind)} {shown(scope)}")
    page, chosen = CollectionPage.of(query), chosen_fields(query)
    if finder == "allStatus":
        live = await run_in_threadpool(reads.live)
        element = await _of_all(AllInstances(services, fleet, live), scope, content, services)
    else:
        element = await slow_calls.run(lambda: status_element(scope, content, services))
    return collection([chosen(element)], page, request.url.path, query)


async def _of_all(instances: AllInstances, scope: str, content: str, services: Services) -> dict[str, Any]:
    """Return the status by instance; succeeded only if every instance did."""
    replies = await instances.ask(
        FleetQuery(DIAGNOSTICS, {"scope": scope, "content": content}, deadline_seconds=_DEADLINE_SECONDS),
        lambda: status_element(scope, content, services),
        element_read,
    )
    errors = {name: f"{one.state}: {one.reason}" for name, one in replies.items() if one.value is None}
    answers = {name: one.value for name, one in replies.items() if one.value is not None}
    errors |= {name: one["errorMessages"] for name, one in answers.items() if not one["succeeded"]}
    status = {name: one["status"] for name, one in answers.items() if one["succeeded"]}
    found = component_health(services, json.dumps(status) if status else "", json.dumps(errors))
    return {**found, "succeeded": not errors}


def _parameter(value: str | None, name: str) -> str:
    if value is None:
        raise RoutingRefusal(f"Parameter '{name}' is required")
    return value
