"""Endpoints for queries between instances. These endpoints are not for clients and not in the OpenAPI
document."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from api.brooklin.diagnostics import DIAGNOSTICS, status_element
from api.fleet.dependencies import CredentialsDep, ServicesDep, SlowCallsDep
from api.fleet.questions import DIGEST, MOST_BYTES, PATH, SIGNATURE, FleetCredentials
from api.http.middleware import received
from api.http.problems import json_list, json_text
from api.resources.datastreams.dry_runs import DRY_RUN, told_dry_run
from api.resources.lanes import GROUP, LANES, own_lanes
from api.resources.movement import AUDITS, MOVEMENT, audits_document, own_topics, topics_document
from api.resources.partitions.current_loads import (
    CLUSTER_LOADS,
    LOADS,
    cluster_loads_document,
    loads_document,
)
from api.resources.status import HEALTH, own_health
from api.resources.topic_sums import HEAT, SUMS, own_heat, own_sums, sums_document
from api.services import Services
from mirror.errors import InvalidRequest, NotFound
from mirror.model.documents import parsed
from mirror.model.identifiers import InstanceName

router = APIRouter(prefix=PATH, include_in_schema=False)


def _diagnostics(services: Services, requested: Mapping[str, str]) -> dict[str, Any]:
    try:
        return status_element(requested["scope"], requested["content"], services)
    except KeyError as error:
        raise InvalidRequest(f"missing parameter {error.args[0]}") from error


SUBJECTS: Final[Mapping[str, Callable[[Services, Mapping[str, str]], Any]]] = {
    LANES: lambda services, asked: [
        lane.model_dump(mode="json") for lane in own_lanes(services, asked.get(GROUP))
    ],
    HEALTH: lambda services, _: own_health(services).model_dump(mode="json"),
    DIAGNOSTICS: _diagnostics,
    LOADS: loads_document,
    CLUSTER_LOADS: lambda services, _: cluster_loads_document(services),
    HEAT: lambda services, _: own_heat(services),
    MOVEMENT: lambda services, _: topics_document(own_topics(services)),
    AUDITS: lambda services, _: audits_document(services.audits()),
    SUMS: lambda services, _: sums_document(own_sums(services)),
}
"""Functions for the subjects that other instances may query."""
DOCUMENTS: Final[Mapping[str, Callable[[Services, Any], Any]]] = {DRY_RUN: told_dry_run}
"""Functions for the subjects whose query has a JSON document."""
_SLOW: Final = frozenset({DIAGNOSTICS})
"""Subjects that run as slow calls, in addition to the subjects in `DOCUMENTS`."""


class _Exchange:
    """One verified query from another instance.

    `nonce`: nonce in the signature of the query, which the signature of the response covers.
    """

    def __init__(self, credentials: FleetCredentials, me: InstanceName, nonce: str) -> None:
        self._credentials = credentials
        self._me = me
        self._nonce = nonce

    def answer(self, value: Any) -> Response:
        """Return the signed response to the query."""
        body = json_list(value) if isinstance(value, list) else json_text(value)
        signature = self._credentials.answer_signature(self._me, self._nonce, body)
        return Response(body, headers={SIGNATURE: signature}, media_type="application/json")


async def _verified(
    subject: str, known: Mapping[str, Any], credentials: FleetCredentials, me: InstanceName, request: Request
) -> _Exchange:
    """Verify the signature of a query from another instance. Raises NotAuthorized, NotFound."""
    query = request.scope["query_string"].decode("latin-1")
    requested = f"{PATH}/{subject}?{query}" if query else f"{PATH}/{subject}"
    header = request.headers.get("Authorization", "")
    nonce = await to_thread.run_sync(credentials.check_question, header, me, requested)
    if subject not in known:
        raise NotFound("unknown subject of a query: the requesting instance runs another version")
    return _Exchange(credentials, me, nonce)


@router.get("/{subject}")
async def answer_question(
    subject: str,
    services: ServicesDep,
    slow_calls: SlowCallsDep,
    credentials: CredentialsDep,
    request: Request,
) -> Response:
    """Return this instance's data about a subject, such as its lanes, to another instance."""
    exchange = await _verified(subject, SUBJECTS, credentials, services.status.name, request)

    def answer() -> Response:
        return exchange.answer(SUBJECTS[subject](services, request.query_params))

    return await (slow_calls.run(answer) if subject in _SLOW else to_thread.run_sync(answer))


@router.post("/{subject}")
async def compute(
    subject: str,
    services: ServicesDep,
    slow_calls: SlowCallsDep,
    credentials: CredentialsDep,
    request: Request,
) -> Response:
    """Return the result for a document that another instance sends. Its query contains the digest of the
    document."""
    exchange = await _verified(subject, DOCUMENTS, credentials, services.status.name, request)
    body = await _signed_body(request, services.limits.body_seconds)
    return await slow_calls.run(lambda: exchange.answer(DOCUMENTS[subject](services, parsed(body))))


async def _signed_body(request: Request, seconds: float) -> bytes:
    """Return the body of a query after checking its digest. Raises BodyTooLate, BodyTooLarge,
    InvalidRequest."""
    body = await received(request.receive, seconds, MOST_BYTES, "the document of the query")
    if body is None:
        raise ClientDisconnect
    if not hmac.compare_digest(sha256(body).hexdigest(), request.query_params.get(DIGEST, "")):
        raise InvalidRequest("the signature of the query does not match its document")
    return body
