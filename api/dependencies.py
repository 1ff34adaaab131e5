"""What a handler may ask for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from api.calls.event_feed import EventFeed
from api.calls.slow_calls import SlowCalls
from api.fleet.credentials import Credentials
from api.fleet.questions import Fleet
from api.fleet.reads import Reads
from api.fleet.renditions import Renditions
from api.services import Services


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _slow_calls(request: Request) -> SlowCalls:
    calls: SlowCalls = request.app.state.slow_calls
    return calls


async def _event_feed(request: Request) -> EventFeed:
    feed: EventFeed = request.app.state.event_feed
    return feed


async def _reads(request: Request, response: Response) -> Reads:
    return Reads(request.app.state.services, request.app.state.memory, response.headers)


async def _fleet(request: Request) -> Fleet:
    fleet: Fleet = request.app.state.fleet
    return fleet


async def _credentials(request: Request) -> Credentials:
    credentials: Credentials = request.app.state.credentials
    return credentials


async def _renditions(request: Request) -> Renditions:
    renditions: Renditions = request.app.state.renditions
    return renditions


ServicesDep = Annotated[Services, Depends(_services)]
SlowCallsDep = Annotated[SlowCalls, Depends(_slow_calls)]
EventFeedDep = Annotated[EventFeed, Depends(_event_feed)]
ReadsDep = Annotated[Reads, Depends(_reads)]
"""For answers that the framework makes of what a handler returns: they have the headers of the reads."""
FleetDep = Annotated[Fleet, Depends(_fleet)]
CredentialsDep = Annotated[Credentials, Depends(_credentials)]
RenditionsDep = Annotated[Renditions, Depends(_renditions)]
