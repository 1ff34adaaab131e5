"""/v1/datastreams: list, read and change datastreams.

The JSON text of each datastream is cached, because a list of thousands of datastreams is assembled from these
texts. A cursor of the list is the last name of a page, so concurrent creations and deletions do not shift
pages: each datastream that exists throughout is on exactly one page.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Body, Depends, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep, of_state
from api.fleet.reads import Reads
from api.http.problems import LegibleJson, described, problems
from api.http.request_headers import IfMatch, Tags, etag_of, version_to_change
from api.resources.datastreams.datastream_changes import UpdateBody, UpdatePlanAnswer, patched
from api.resources.datastreams.datastream_models import DAMAGED, DatastreamAnswer
from api.resources.datastreams.dry_runs import Change, DryRunFlag, DryRuns, DryRunsDep
from api.services import Services
from mirror.control.commands import UpdateDatastream
from mirror.coordination.stores.definitions import DamagedDefinition, Definitions, StoredDatastream
from mirror.coordination.stores.problems import Problem
from mirror.errors import InvalidRequest
from mirror.instance.loads.assessments import Assessment
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import OWNER
from mirror.model.identifiers import ClusterRef, DatastreamName

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])
_MOST: Final = 50_000
_MOST_ON_A_PAGE: Final = 1_000

ListedStatus = Literal["INITIALIZING", "READY", "PAUSED", "STOPPING", "STOPPED", "DELETING", "DAMAGED"]
Listed = StoredDatastream | DamagedDefinition


@dataclass(frozen=True, slots=True)
class Listing:
    """Filters and page of a request for the list of datastreams. A filter that is None matches all.

    `given`: the query parameters without the cursor.
    """

    given: Mapping[str, Sequence[str]]
    statuses: frozenset[str]
    owner: str | None
    source: str | None
    destination: str | None
    limit: int | None
    after: str | None

    def page_of(self, found: Definitions, named: Mapping[str, ClusterRef]) -> tuple[Sequence[Listed], str]:
        """Return one page of datastreams, sorted by name, and the URL of the next page.

        The URL is empty if there is no next page. `named`: clusters by the names used in the request.
        """
        everything: list[Listed] = [*found.readable, *found.damaged]
        left = sorted((datastream for datastream in everything if self._has(datastream, named)), key=name_of)
        page = left[: self.limit]
        if len(page) == len(left):
            return page, ""
        query = {**self.given, "cursor": [_cursor_of(name_of(page[-1]))]}
        return page, f"/v1/datastreams?{urlencode(query, doseq=True, quote_via=quote)}"

    def _has(self, listed: Listed, named: Mapping[str, ClusterRef]) -> bool:
        is_damaged = isinstance(listed, DamagedDefinition)
        known = listed.last if isinstance(listed, DamagedDefinition) else listed.datastream
        status = DAMAGED if is_damaged or known is None else known.status.value
        wanted = (
            (self.owner, known and known.metadata.get(OWNER)),
            (self.source and named[self.source], known and known.source),
            (self.destination and named[self.destination], known and known.destination),
        )
        return (
            (self.after is None or name_of(listed) > self.after)
            and (not self.statuses or status in self.statuses)
            and all(expected is None or expected == value for expected, value in wanted)
        )

    @property
    def clusters(self) -> frozenset[str]:
        """Names by which the filters refer to clusters."""
        return frozenset(side for side in (self.source, self.destination) if side is not None)


async def _listing(
    owner: Annotated[str | None, Query(description="only datastreams of this owner")] = None,
    status: Annotated[
        list[ListedStatus] | None, Query(description="only datastreams with this status; may be repeated")
    ] = None,
    source: Annotated[
        str | None, Query(description="only datastreams from this source cluster (alias or address)")
    ] = None,
    destination: Annotated[
        str | None, Query(description="only datastreams to this destination cluster (alias or address)")
    ] = None,
    limit: Annotated[
        int | None,
        Query(ge=1, le=_MOST_ON_A_PAGE, description="maximum number of datastreams per page (default: all)"),
    ] = None,
    cursor: Annotated[
        str | None, Query(description="start of the page, from the Link header of the previous page")
    ] = None,
) -> Listing:
    """Return the datastreams that the request selects. Raises InvalidRequest for an invalid cursor."""
    given = {"owner": owner, "source": source, "destination": destination}
    written = {name: [value] for name, value in given.items() if value is not None}
    written |= {"status": [*status]} if status else {}
    written |= {"limit": [str(limit)]} if limit is not None else {}
    after = _name_of_cursor(cursor) if cursor is not None else None
    return Listing(written, frozenset(status or ()), owner, source, destination, limit, after)


ListingDep = Annotated[Listing, Depends(_listing)]


def name_of(listed: Listed) -> str:
    """Return the name of a definition, readable or damaged."""
    return listed.name if isinstance(listed, DamagedDefinition) else listed.datastream.name


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _name_of_cursor(cursor: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        name = base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise InvalidRequest(
            f"invalid cursor {bounds.shown(cursor)}", advice="use the Link header of the previous response"
        ) from error
    return name


class _Rendition(NamedTuple):
    datastream: Datastream
    problem: Problem | None
    planning: Assessment | None
    text: bytes


class Renditions:
    """Cache of datastreams that are already serialized to JSON.

    Thread-safe; concurrent calls may render the same definition twice.
    """

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _Rendition] = {}

    def of(
        self, datastream: Datastream, problem: Problem | None, planning: Assessment | None = None
    ) -> bytes:
        """Return a datastream as JSON text. If neither its definition nor its state has changed, the text is
        cached."""
        known = self._known.get(datastream.name)
        made_of = (problem, planning)
        if known is None or known.datastream is not datastream or (known.problem, known.planning) != made_of:
            text = rendered(DatastreamAnswer.from_datastream(datastream, problem, planning))
            known = _Rendition(datastream, problem, planning, text)
            if len(self._known) >= _MOST:  # includes deleted datastreams
                self._known = {}
            self._known[datastream.name] = known
        return known.text


RenditionsDep = Annotated[Renditions, Depends(of_state("renditions"))]


def rendered(answer: DatastreamAnswer) -> bytes:
    """Return one datastream's response as JSON text."""
    return bytes(LegibleJson(answer.model_dump(mode="json")).body)


def answer_of(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """Return a datastream as a response, with its problem and the result of its latest planning run.

    The ETag header contains its version.
    """
    response.headers["ETag"] = etag_of(stored)
    datastream = stored.datastream
    return DatastreamAnswer.from_datastream(
        datastream, reads.problem(datastream.name), reads.assessments().get(datastream.group)
    )


def written_answer(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """Return the response for a definition that was just written; see `answer_of`."""
    reads.acknowledged(stored)
    return answer_of(stored, reads, response)


def damaged_answer(found: DamagedDefinition, problem: Problem | None, services: Services) -> DatastreamAnswer:
    """Return the response for a damaged definition. `problem`: problem recorded by the leader, which includes
    its start time; None if the leader has not recorded one yet."""
    return DatastreamAnswer.from_damaged(found, problem or Problem(found.problem, services.clock.now_ms()))


@dataclass(frozen=True)
class _ChangeTerms:
    """Parameters of requests that change a datastream. `cause`: reason and requester, unchecked."""

    dry_runs: DryRuns
    reads: Reads
    if_match: Tags | None
    dry_run: bool
    cause: tuple[str, str]


async def _change_terms(
    dry_runs: DryRunsDep,
    reads: ReadsDep,
    if_match: IfMatch,
    dry_run: DryRunFlag = False,
    reason: Annotated[str, Query(description="reason, recorded in the event")] = "",
    requested_by: Annotated[str, Query(description="requester, recorded in the event")] = "",
) -> _ChangeTerms:
    return _ChangeTerms(dry_runs, reads, if_match, dry_run, (reason, requested_by))


TermsDep = Annotated[_ChangeTerms, Depends(_change_terms)]


@router.get("", response_model=list[DatastreamAnswer], responses={200: {"headers": described("Link")}})
def list_all(
    services: ServicesDep, reads: ReadsDep, listing: ListingDep, renditions: RenditionsDep, response: Response
) -> Response:
    """List all datastreams, or those that match the filters, sorted by name.

    The list includes damaged datastreams. With `limit`, the header `Link` contains the next page.
    """
    named = {cluster: services.cluster_of_address(cluster) for cluster in listing.clusters}
    page, further = listing.page_of(reads.definitions(), named)
    if further:
        response.headers["Link"] = f'<{further}>; rel="next"'
    known, plannings = reads.problems(), reads.assessments()
    texts = (
        rendered(damaged_answer(definition, known.get(definition.name), services))
        if isinstance(definition, DamagedDefinition)
        else renditions.of(
            definition.datastream,
            known.get(definition.datastream.name),
            plannings.get(definition.datastream.group),
        )
        for definition in page
    )
    headers = dict(response.headers)  # FastAPI adds them only to responses that it creates
    return Response(b"[" + b",".join(texts) + b"]", headers=headers, media_type="application/json")


@router.get("/{name}", responses=problems(404))
def get(name: NamePath, services: ServicesDep, reads: ReadsDep, response: Response) -> DatastreamAnswer:
    """Return one datastream.

    The header ETag contains the version of the definition, for If-Match of a change.
    """
    found = reads.definition(DatastreamName(name))
    if isinstance(found, DamagedDefinition):
        return damaged_answer(found, reads.problem(found.name), services)
    return answer_of(found, reads, response)


@router.put("/{name}", responses=problems(404, 409, 412, 422, 428))
async def replace(
    name: NamePath, body: UpdateBody, services: ServicesDep, terms: TermsDep, response: Response
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Replace the definition of a datastream. Changeable fields that are omitted get their defaults. Only
    partitions that the change adds or removes start or stop."""
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
    """Apply a merge patch (RFC 7386) to the definition."""
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
        return UpdateDatastream(stored, change(stored.datastream), is_exact, *bounds.cause(*terms.cause))

    def changes() -> list[Change]:
        requested = command()
        services.control.check_update((requested,))
        return [(requested.before.datastream, requested.after)]

    def update() -> DatastreamAnswer:
        return written_answer(services.control.update(command()), terms.reads, response)

    return await (terms.dry_runs.changes(changes) if terms.dry_run else run_in_threadpool(update))
