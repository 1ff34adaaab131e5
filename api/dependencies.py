"""Dependencies that handlers can request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from api.access.gate import caller_of, quota_holders_of
from api.calls.event_feed import EventFeed
from api.calls.slow_calls import SlowCalls
from api.dry_runs.dry_runs import DryRuns
from api.fleet.credentials import FleetCredentials
from api.fleet.questions import Fleet
from api.fleet.reads import Reads
from api.fleet.renditions import Renditions
from api.services import Services


def _of_state(name: str) -> Callable[[Request], Awaitable[Any]]:
    """Return a dependency that reads an attribute of the application's state."""

    async def given(request: Request) -> Any:
        return getattr(request.app.state, name)

    return given


async def _reads(request: Request, response: Response) -> Reads:
    return Reads(request.app.state.services, request.app.state.memory, response.headers)


async def _services(request: Request) -> Services:
    """Return the services whose changes are made with the rights of the caller."""
    services: Services = request.app.state.services
    return replace(services, control=services.control.of(caller_of(request)))


async def _slow_calls(request: Request) -> SlowCalls:
    """Return the slow calls of the caller's principal and owners; other instances have only the overall
    limit."""
    found: SlowCalls = request.app.state.slow_calls
    return found.of(quota_holders_of(request))


ServicesDep = Annotated[Services, Depends(_services)]
SlowCallsDep = Annotated[SlowCalls, Depends(_slow_calls)]
EventFeedDep = Annotated[EventFeed, Depends(_of_state("event_feed"))]
ReadsDep = Annotated[Reads, Depends(_reads)]
"""For responses that the framework builds from the handler's return value; they carry the headers of the
reads."""
FleetDep = Annotated[Fleet, Depends(_of_state("fleet"))]


async def _dry_runs(request: Request) -> DryRuns:
    services, slow_calls = await _services(request), await _slow_calls(request)
    return DryRuns(services, request.app.state.fleet, slow_calls)


DryRunsDep = Annotated[DryRuns, Depends(_dry_runs)]
CredentialsDep = Annotated[FleetCredentials, Depends(_of_state("credentials"))]
RenditionsDep = Annotated[Renditions, Depends(_of_state("renditions"))]
