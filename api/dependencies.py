"""What a handler may ask for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.calls.slow_calls import SlowCalls
from api.services import Services


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _slow_calls(request: Request) -> SlowCalls:
    calls: SlowCalls = request.app.state.slow_calls
    return calls


ServicesDep = Annotated[Services, Depends(_services)]
SlowCallsDep = Annotated[SlowCalls, Depends(_slow_calls)]
