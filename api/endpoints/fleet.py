"""Queries between instances: not for clients, and not in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Request, Response

from api.dependencies import CredentialsDep, ServicesDep, SlowCallsDep
from api.errors import LegibleJson
from api.fleet.answers import SLOW, SUBJECTS
from api.fleet.questions import PATH, SIGNATURE
from mirror.errors import NotFound

router = APIRouter(prefix=PATH, include_in_schema=False)


@router.get("/{subject}")
async def answer_question(
    subject: str,
    services: ServicesDep,
    slow_calls: SlowCallsDep,
    credentials: CredentialsDep,
    request: Request,
    authorization: Annotated[str, Header()] = "",
) -> Response:
    """Return this instance's own view of a subject."""
    me, query = services.status.name, request.scope["query_string"].decode("latin-1")
    asked = f"{PATH}/{subject}?{query}" if query else f"{PATH}/{subject}"
    nonce = await to_thread.run_sync(credentials.check_question, authorization, me, asked)
    if subject not in SUBJECTS:
        raise NotFound("unknown subject: this instance runs another version")

    def answer() -> Response:
        value = SUBJECTS[subject](services, request.query_params)
        body = LegibleJson(value).body
        assert isinstance(body, bytes)
        signature = credentials.answer_signature(me, nonce, body)
        return Response(body, headers={SIGNATURE: signature}, media_type="application/json")

    return await (slow_calls.run(answer) if subject in SLOW else to_thread.run_sync(answer))
