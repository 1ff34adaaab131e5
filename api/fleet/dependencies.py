"""FastAPI dependencies that request handlers declare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response

from api.access.gate import caller_of, quota_holders_of
from api.fleet.questions import Fleet, FleetCredentials
from api.fleet.reads import Reads
from api.http.event_streams import EventFeed
from api.http.slow_calls import CallersSlowCalls
from api.services import Services


def of_state(name: str) -> Callable[[Request], Awaitable[Any]]:
    """Return a FastAPI dependency that reads an attribute of the application's state."""

    async def dependency(request: Request) -> Any:
        return getattr(request.app.state, name)

    return dependency


async def _reads(request: Request, response: Response) -> Reads:
    return Reads(request.app.state.services, request.app.state.memory, response.headers)


async def _services(request: Request) -> Services:
    """Return the services of the endpoints, restricted to the rights of the caller."""
    services: Services = request.app.state.services
    return replace(services, control=services.control.of(caller_of(request)))


async def _slow_calls(request: Request) -> CallersSlowCalls:
    """Return a runner of slow calls that applies the limits of the caller's principal and owners.

    Only the overall limit applies to other instances.
    """
    return CallersSlowCalls(request.app.state.slow_calls, partial(quota_holders_of, request))


ServicesDep = Annotated[Services, Depends(_services)]
SlowCallsDep = Annotated[CallersSlowCalls, Depends(_slow_calls)]
EventFeedDep = Annotated[EventFeed, Depends(of_state("event_feed"))]
ReadsDep = Annotated[Reads, Depends(_reads)]
"""Access of a handler to the shared state. Response headers state the age of the data read."""
FleetDep = Annotated[Fleet, Depends(of_state("fleet"))]
CredentialsDep = Annotated[FleetCredentials, Depends(of_state("credentials"))]
NamePath = Annotated[str, Path(description="name of the datastream")]
