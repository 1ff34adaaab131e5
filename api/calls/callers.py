"""Name of the caller of a request."""

from __future__ import annotations

from starlette.requests import Request

from api.calls.request_ids import request_id_of


def caller_of(request: Request, given: str) -> str:
    """Return the name given in the request, else its client address and request id, which identifies it in
    the log."""
    if given:
        return given
    origin = request.client.host if request.client is not None else "an unknown address"
    return f"client at {origin} (request {request_id_of(request)})"
