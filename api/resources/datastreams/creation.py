"""/v1/datastreams: create a datastream."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.reads import Reads
from api.http.middleware import caller_of
from api.http.problems import problems
from api.http.request_headers import IdempotencyKey, creation_named, etag_of
from api.resources.datastreams.datastream_changes import UpdatePlanAnswer
from api.resources.datastreams.datastream_models import DatastreamAnswer, DatastreamBody
from api.resources.datastreams.dry_runs import SHOWN, DryRunFlag, DryRuns
from mirror.control.commands import CreateDatastream
from mirror.model import bounds

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


@dataclass(frozen=True)
class _CreationTerms:
    """Parameters of requests that create a datastream. `cause`: reason and requester, unchecked."""

    reads: Reads
    key: str | None
    dry_run: bool
    cause: tuple[str, str]


async def _creation_terms(
    request: Request,
    reads: ReadsDep,
    key: IdempotencyKey,
    dry_run: DryRunFlag = False,
    reason: Annotated[str, Query(description="reason, recorded in the event")] = "",
    requested_by: Annotated[str, Query(description="requester, recorded in the event")] = "",
) -> _CreationTerms:
    return _CreationTerms(reads, key, dry_run, (reason, caller_of(request, requested_by)))


CreationTermsDep = Annotated[_CreationTerms, Depends(_creation_terms)]


@router.post("", status_code=201, responses={**SHOWN, **problems(409, 422)})
async def create(
    body: DatastreamBody,
    services: ServicesDep,
    fleet: FleetDep,
    slow_calls: SlowCallsDep,
    response: Response,
    terms: CreationTermsDep,
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Create a datastream.

    The leader then sets the status of the datastream to READY and plans its tasks. If the response is lost,
    repeat the request with the same `Idempotency-Key`: the datastream is created only once, as long as it
    exists. The event contains the requester or, without `requested_by`, the caller's address and the
    `X-Request-ID`.
    """

    def command() -> CreateDatastream:
        datastream = body.to_datastream(services.default_destination, services.cluster_of_address)
        creation = creation_named(terms.key, body, services.control.caller.name)
        datastream = dataclasses.replace(datastream, creation=creation)
        reason, requester = bounds.cause(*terms.cause)
        return CreateDatastream(datastream, reason=reason, requested_by=requester)

    def register() -> DatastreamAnswer:
        stored = services.control.creations.create(command())
        terms.reads.acknowledged(stored)
        name = stored.datastream.name
        response.headers["Location"] = f"/v1/datastreams/{quote(name, safe='')}"
        response.headers["ETag"] = etag_of(stored)
        planning = terms.reads.assessments().get(stored.datastream.group)
        return DatastreamAnswer.from_datastream(stored.datastream, planning=planning)

    if not terms.dry_run:
        return await run_in_threadpool(register)
    response.status_code = HTTPStatus.OK
    return await DryRuns(services, fleet, slow_calls).command(command)
