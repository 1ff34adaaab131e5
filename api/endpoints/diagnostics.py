"""/health and /diag as Brooklin's clients know them."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import APIRouter, Request

from api.brooklin.collections import Page, chosen_fields, collection
from api.brooklin.diagnostics import component_health, connectors_known, status_element
from api.brooklin.protocol import unsupported
from api.brooklin.refusals import RoutingRefusal
from api.brooklin.server_health import connectors_of
from api.dependencies import ServicesDep, SlowCallsDep
from api.services import Services
from mirror.model.bounds import shown

router = APIRouter(tags=["brooklin"])
_FINDERS: Final = {"status", "allStatus"}
_TYPE: Final = "connector"


@router.get("/health")
async def health(services: ServicesDep, request: Request) -> dict[str, Any]:
    """ServerHealth: connectors with their tasks on this instance. Waits for nothing."""
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
async def diagnose(services: ServicesDep, slow_calls: SlowCallsDep, request: Request) -> dict[str, Any]:
    """One ServerComponentHealth: of this instance (`q=status`), or of all of them (`q=allStatus`), which can
    be said as long as this is the only one."""
    query = request.query_params
    finder = query.get("q")
    if finder not in _FINDERS:
        target = f"{request.url.path}?{request.url.query}"
        raise unsupported("GET", target, request.headers)
    kind, scope, content = (_parameter(query.get(name), name) for name in ("type", "scope", "content"))
    if kind != _TYPE or scope not in connectors_known(services):
        raise RoutingRefusal(f"Unknown component: {shown(kind)} {shown(scope)}")
    page, chosen = Page.of(query), chosen_fields(query)
    element = await slow_calls.run(lambda: status_element(scope, content, services))
    if finder == "allStatus":
        element = await slow_calls.run(lambda: _of_all(element, services))
    return collection([chosen(element)], page, request.url.path, query)


def _of_all(mine: dict[str, Any], services: Services) -> dict[str, Any]:
    """By instance. Those that are not asked are named, and then it has not succeeded."""
    name = services.status.name
    others = [one for one in services.live() if one.name != name]
    errors = {one.name: f"not asked; ask it at {one.rest_address} with q=status" for one in others}
    if not mine["succeeded"]:
        errors[name] = mine["errorMessages"]
    status = {name: mine["status"]} if mine["succeeded"] else {}
    found = component_health(services, json.dumps(status) if status else "", json.dumps(errors))
    return {**found, "succeeded": not errors}


def _parameter(value: str | None, name: str) -> str:
    if value is None:
        raise RoutingRefusal(f"Parameter '{name}' is required")
    return value
