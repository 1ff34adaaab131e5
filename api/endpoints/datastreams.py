"""/v1/datastreams"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.calls.callers import caller_of
from api.calls.slow_calls import SlowCalls
from api.datastreams.answers import NamePath, answer_of, cause_of, damaged_answer, written_answer
from api.datastreams.backlogs import backlogs_of
from api.datastreams.calls import SHOWN, DryRun, shown
from api.datastreams.creations import IdempotencyKey, creation_named
from api.datastreams.pages import ListingDep
from api.dependencies import ReadsDep, RenditionsDep, ServicesDep, SlowCallsDep
from api.endpoints.partitions.ledgers import progress_of
from api.etags import IfMatch, Tags, etag_of, version_to_change
from api.fleet.reads import Reads
from api.fleet.renditions import rendered
from api.schemas.changes import UpdateBody, UpdatePlanAnswer, patched
from api.schemas.datastreams import DatastreamAnswer, DatastreamBody
from api.schemas.headers import described
from api.schemas.partitions import HaltBody
from api.schemas.problems import problems
from api.schemas.progress import LaneProgressAnswer
from api.services import Services
from mirror.control.commands import CreateDatastream, UpdateDatastream
from mirror.coordination.effects import stops_in_words
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


@dataclass(frozen=True)
class _ChangeTerms:
    """How a change is asked for."""

    slow_calls: SlowCalls
    reads: Reads
    if_match: Tags | None
    dry_run: bool
    why: HaltBody


async def _change_terms(
    slow_calls: SlowCallsDep,
    reads: ReadsDep,
    if_match: IfMatch,
    dry_run: DryRun = False,
    reason: Annotated[str, Query(description="kept with the event")] = "",
    requested_by: Annotated[str, Query(description="who asks; kept with the event")] = "",
) -> _ChangeTerms:
    return _ChangeTerms(
        slow_calls, reads, if_match, dry_run, HaltBody(reason=reason, requested_by=requested_by)
    )


TermsDep = Annotated[_ChangeTerms, Depends(_change_terms)]


@dataclass(frozen=True)
class _CreationTerms:
    """How a creation is asked for."""

    slow_calls: SlowCalls
    reads: Reads
    key: str | None
    dry_run: bool
    why: HaltBody


async def _creation_terms(
    request: Request,
    slow_calls: SlowCallsDep,
    reads: ReadsDep,
    key: IdempotencyKey,
    dry_run: DryRun = False,
    reason: Annotated[str, Query(description="kept with the event")] = "",
    requested_by: Annotated[str, Query(description="who asks; kept with the event")] = "",
) -> _CreationTerms:
    why = HaltBody(reason=reason, requested_by=caller_of(request, requested_by))
    return _CreationTerms(slow_calls, reads, key, dry_run, why)


CreationTermsDep = Annotated[_CreationTerms, Depends(_creation_terms)]


@router.post("", status_code=201, responses={**SHOWN, **problems(409, 422)})
async def create(
    body: DatastreamBody,
    services: ServicesDep,
    response: Response,
    terms: CreationTermsDep,
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Register a datastream; the leader makes it READY and plans its tasks. A creation that had no answer may
    be sent again with its `Idempotency-Key`: it is one datastream, as long as that is there. Its event says
    who asks; where nobody says so, the address that the call came from and its `X-Request-ID`."""

    def command() -> CreateDatastream:
        datastream = body.to_datastream(services.default_destination, services.cluster_of_address)
        creation = creation_named(terms.key, body, services.control.caller.name)
        datastream = dataclasses.replace(datastream, creation=creation)
        reason, who = cause_of(terms.why)
        return CreateDatastream(datastream, reason=reason, requested_by=who)

    def register() -> DatastreamAnswer:
        stored = services.control.create(command())
        terms.reads.acknowledged(stored)
        name = stored.datastream.name
        response.headers["Location"] = f"/v1/datastreams/{quote(name, safe='')}"
        response.headers["ETag"] = etag_of(stored)
        planning = terms.reads.assessments().get(stored.datastream.group)
        return DatastreamAnswer.from_datastream(stored.datastream, planning=planning)

    if not terms.dry_run:
        return await run_in_threadpool(register)
    response.status_code = HTTPStatus.OK
    return await terms.slow_calls.run(lambda: shown(command(), services))


@router.get("", response_model=list[DatastreamAnswer], responses={200: {"headers": described("Link")}})
def list_all(
    services: ServicesDep,
    reads: ReadsDep,
    listing: ListingDep,
    renditions: RenditionsDep,
    response: Response,
) -> Response:
    """Datastreams by name, also those of which the definition is damaged: all, or those that the filters
    leave. With a `limit` the header `Link` leads to the next page."""
    named = {one: services.cluster_of_address(one) for one in listing.clusters}
    page, further = listing.page_of(reads.definitions(), named)
    if further:
        response.headers["Link"] = f'<{further}>; rel="next"'
    known, plannings = reads.problems(), reads.assessments()
    texts = (
        rendered(damaged_answer(one, known.get(one.name), services))
        if isinstance(one, DamagedDefinition)
        else renditions.of(
            one.datastream, known.get(one.datastream.name), plannings.get(one.datastream.group)
        )
        for one in page
    )
    headers = dict(response.headers)  # the framework adds them to answers of its own making alone
    return Response(b"[" + b",".join(texts) + b"]", headers=headers, media_type="application/json")


@router.get("/{name}", responses=problems(404))
def get(name: NamePath, services: ServicesDep, reads: ReadsDep, response: Response) -> DatastreamAnswer:
    """One datastream; the header ETag names the version, for If-Match of a change."""
    found = reads.look(DatastreamName(name))
    if isinstance(found, DamagedDefinition):
        return damaged_answer(found, reads.problem(found.name), services)
    return answer_of(found, reads, response)


@router.put("/{name}", responses=problems(404, 409, 412, 422, 428))
async def replace(
    name: NamePath, body: UpdateBody, services: ServicesDep, terms: TermsDep, response: Response
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Let a definition become this one; what can change and is left out has its default then. Only partitions
    that enter or leave start or stop."""
    return await _change(
        name,
        lambda present: body.to_datastream(present, services.cluster_of_address),
        services,
        terms,
        response,
    )


@router.patch("/{name}", responses=problems(404, 409, 412, 422, 428))
async def patch(
    name: NamePath,
    changes: Annotated[Any, Body(media_type="application/merge-patch+json")],
    services: ServicesDep,
    terms: TermsDep,
    response: Response,
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Change what a merge patch (RFC 7386) of the definition names, and nothing else."""
    return await _change(
        name,
        lambda present: patched(present, changes, services.cluster_of_address),
        services,
        terms,
        response,
    )


async def _change(
    name: str,
    change: Callable[[Datastream], Datastream],
    services: Services,
    terms: _ChangeTerms,
    response: Response,
) -> DatastreamAnswer | UpdatePlanAnswer:
    def command() -> UpdateDatastream:
        stored, is_exact = version_to_change(services.control, DatastreamName(name), terms.if_match)
        return UpdateDatastream(stored, change(stored.datastream), is_exact, *cause_of(terms.why))

    def preview() -> UpdatePlanAnswer:
        asked = command()
        services.control.check_update((asked,))
        before, after = asked.before.datastream, asked.after
        found = services.preview_update((after,))
        remarks = stops_in_words(found.effects)
        return UpdatePlanAnswer.from_preview(before, after, found, backlogs_of(found, services), remarks)

    def update() -> DatastreamAnswer:
        return written_answer(services.control.update(command()), terms.reads, response)

    return await (terms.slow_calls.run(preview) if terms.dry_run else run_in_threadpool(update))


@router.get("/{name}/progress", responses=problems(404, 409))
async def progress(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    offset_map: Annotated[bool, Query(description="with every run of the offset maps")] = False,
) -> list[LaneProgressAnswer]:
    """Checkpoints, what became of every offset, and offset maps, as they were stored last; of all partitions
    of the datastream's group that go to its destination. What a former datastream of its name has copied to
    other topics is not shown."""

    def read() -> list[LaneProgressAnswer]:
        datastream = reads.stored(DatastreamName(name)).datastream
        stored = services.progress(datastream.destination, datastream.group)
        return progress_of(datastream, stored, services, with_map=offset_map)

    return await slow_calls.run(read)
