"""Creates the web application from `Services`, which contains all of its dependencies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from http import HTTPMethod, HTTPStatus
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from api.access.gate import CLOSED, Gate, endpoint_is_for_caller
from api.brooklin import diagnostics, endpoints
from api.brooklin.protocol import (
    RoutingRefusal,
    SpokenVersions,
    is_brooklins,
    protocol_of,
    restli_problem,
    restli_status_of,
)
from api.fleet.questions import Fleet, FleetCredentials
from api.fleet.reads import StateMemory
from api.http import openapi_document
from api.http.event_streams import EventFeed
from api.http.middleware import CheckedBodies, CutOffCalls, HeadCalls, request_id_of
from api.http.openapi_document import DESCRIPTION, SERVERS, TAGS, DocumentedApi, operation_id
from api.http.problems import (
    EVERYWHERE,
    PROBLEM_TYPE,
    LegibleJson,
    MethodNotAllowed,
    headers_of,
    invalid_body,
    problem,
    status_of,
)
from api.http.slow_calls import SlowCalls
from api.metrics.collector import CertificateCollector, InstanceCollector
from api.pages import routes
from api.resources import (
    advice,
    fleet_answers,
    incidents,
    lanes,
    monitors,
    movement,
    operations,
    overview,
    pairs,
    plans,
    status,
    topics,
    usage,
)
from api.resources.datastreams import creation, datastream_actions, datastreams, groups, lost_datastreams
from api.resources.datastreams.datastreams import Renditions
from api.resources.partitions import current_loads, histories, lags, progress, translations
from api.services import Services
from mirror.errors import HeadraceError, InvalidRequest, NotFound
from mirror.loggers import get_logger
from mirror.model.reasons import reason_of

_log = get_logger(__name__)


def create_app(services: Services) -> FastAPI:
    """Create the web application. It has no global state, so that tests can create several."""
    app = described_app()
    services = replace(services, control=services.control.of(CLOSED))  # each call gets its own rights
    app.state.services = services
    app.state.memory = StateMemory(services.clock, services.is_store_answering)
    app.state.renditions = Renditions()
    app.state.slow_calls = SlowCalls(services.limits.slow_calls_at_once)
    app.state.credentials = FleetCredentials(services.secret, services.clock)
    app.state.fleet = Fleet(app.state.credentials, services.transport, services.fleet_deadline_seconds)
    app.state.event_feed = EventFeed(services.events.history, most_each=services.limits.streams_at_once)
    app.state.registry = CollectorRegistry()
    app.state.registry.register(InstanceCollector(services.snapshot, services.clock, services.metrics))
    app.state.registry.register(CertificateCollector(services.certificates, services.clock))
    ProcessCollector(registry=app.state.registry)
    app.add_middleware(HeadCalls, is_excluded=is_brooklins)
    app.add_middleware(CheckedBodies, refuse=_explain, seconds=services.limits.body_seconds)
    app.add_middleware(Gate, access=services.access, refuse=_explain)
    app.add_middleware(SpokenVersions, refuse=_explain)
    app.add_middleware(CutOffCalls, refuse=_explain)
    app.exception_handler(HeadraceError)(_explain)
    app.exception_handler(RequestValidationError)(_explain_validation)
    app.exception_handler(HTTPException)(_explain_routing)
    app.exception_handler(Exception)(_explain_bug)
    return app


def described_app() -> DocumentedApi:
    """Return the web application with all routes but without services.

    The application is sufficient to generate the OpenAPI document.
    """
    return _with_routes(_routes())


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return the routes of all resources.

    The routes do not depend on services; their validators are compiled once per process.
    """
    app = _with_routes(())
    for resource in (
        creation,
        datastreams,
        progress,
        groups,
        lost_datastreams,
        lags,
        current_loads,
        histories,
        translations,
        plans,
        advice,
        operations,
        status,
        lanes,
        movement,
        incidents,
        usage,
        pairs,
        topics,
        datastream_actions,
        monitors,
        overview,
    ):
        app.include_router(resource.router, responses=EVERYWHERE)
    for hidden in (endpoints, diagnostics, fleet_answers, openapi_document, routes):
        app.include_router(hidden.router, include_in_schema=False)
    return tuple(app.routes)


def _with_routes(routes: Sequence[BaseRoute]) -> DocumentedApi:
    return DocumentedApi(
        title="Headrace",
        summary="Load-aware Kafka mirroring",
        description=DESCRIPTION,
        version=version("headrace"),
        openapi_tags=TAGS,
        servers=SERVERS,
        openapi_url=None,  # served by `api.http.openapi_document`
        generate_unique_id_function=operation_id,
        default_response_class=LegibleJson,
        dependencies=[Depends(endpoint_is_for_caller)],
        lifespan=_closing,
        routes=list(routes),
    )


def end_streams(app: FastAPI) -> None:
    """End all event streams and other endless responses. Idempotent and thread-safe."""
    feed: EventFeed = app.state.event_feed
    feed.close()


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    """Close the connections to other instances when the server stops the application."""
    yield
    await app.state.fleet.close()


async def _explain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadraceError)
    if not is_brooklins(request.url.path):
        status = status_of(error)
        _log.info("request refused", status=status.value, kind=type(error).__name__, reason=reason_of(error))
        body = problem(error, request_id_of(request))
        return LegibleJson(body, status, headers=headers_of(error), media_type=PROBLEM_TYPE)
    services: Services = request.app.state.services
    marker = protocol_of(request.headers).error_header
    body = restli_problem(error, services.status.name)
    return LegibleJson(body, restli_status_of(error), headers={**headers_of(error), marker: "true"})


async def _explain_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _explain(request, invalid_body(error.errors()))


async def _explain_routing(request: Request, error: Exception) -> Response:
    """Return the problem document for an error that the web framework raises.

    Examples are an unknown path or method, or an undecodable body.
    """
    assert isinstance(error, HTTPException)
    path = request.url.path
    refusal: HeadraceError = InvalidRequest(str(error.detail))
    if error.status_code == HTTPStatus.NOT_FOUND:
        refusal = NotFound(f"unknown path {path}", advice="/v1/docs lists all endpoints")
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and is_brooklins(path):
        refusal = RoutingRefusal(f"Method '{request.method}' is not supported for URI '{path}'")
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        refusal = MethodNotAllowed(f"method {request.method} is not allowed at {path}")
    response = await _explain(request, refusal)
    response.headers.update(error.headers or {})
    if "Allow" in response.headers:
        response.headers["Allow"] = ", ".join(_methods_at(request))
    return response


def _methods_at(request: Request) -> list[str]:
    """Return the HTTP methods of all routes that match a request's path; the framework names only one."""
    routes, scope = request.app.routes, dict(request.scope)
    found = {
        method.value
        for method in HTTPMethod
        if any(route.matches(scope | {"method": method.value})[0] is Match.FULL for route in routes)
    }
    has_head = "GET" in found and not is_brooklins(request.url.path)
    return sorted(found | {"HEAD"} if has_head else found)


async def _explain_bug(request: Request, _: Exception) -> Response:
    """Return status 500 for an unexpected exception. The server logs its traceback."""
    return await _explain(request, HeadraceError("internal error", advice="see the log of this instance"))
