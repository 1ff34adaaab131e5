"""Who makes a call, as far as that is known."""

from __future__ import annotations

from starlette.requests import Request

from api.calls.request_ids import request_id_of


def caller_of(request: Request, said: str) -> str:
    """What the call says of that; else where it came from and its name, by which the log finds it."""
    if said:
        return said
    origin = request.client.host if request.client is not None else "an unknown address"
    return f"somebody at {origin} (request {request_id_of(request)})"
