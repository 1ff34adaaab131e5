"""/v1/lost-datastreams: definitions that the coordination store has lost, but instances have cached."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep
from api.http.middleware import caller_of
from api.http.problems import problems
from api.http.request_headers import IfMatch, Tags, etag_of, named_among
from api.resources.datastreams.datastream_changes import UpdatePlanAnswer
from api.resources.datastreams.datastream_models import DatastreamAnswer
from api.resources.datastreams.datastreams import written_answer
from api.resources.datastreams.dry_runs import DryRunFlag, DryRuns, DryRunsDep
from api.resources.datastreams.halts import HaltBody
from api.services import Services
from mirror.control.commands import CreateDatastream
from mirror.control.lost_datastreams import LostDatastreams
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import NothingStored
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName

router = APIRouter(prefix="/v1/lost-datastreams", tags=["datastreams"])


@dataclass(frozen=True)
class _LostCall:
    """A request for one lost datastream. `tags`: entity tags of If-Match; None accepts any version."""

    name: DatastreamName
    lost: LostDatastreams
    dry_runs: DryRuns
    tags: Tags | None

    def version(self) -> StoredDatastream | None:
        """Return the lost definition whose version If-Match names, None without a version. Raises NotFound,
        StaleVersion."""
        return named_among(self.tags, self.name, lambda: self.lost.get(self.name))


async def _lost_call(
    name: NamePath, services: ServicesDep, dry_runs: DryRunsDep, if_match: IfMatch
) -> _LostCall:
    return _LostCall(DatastreamName(name), _lost_of(services), dry_runs, if_match)


def _lost_of(services: Services) -> LostDatastreams:
    def written(destination: ClusterRef, group: GroupName) -> Collection[str]:
        try:
            lanes = services.progress(destination, group).lanes
        except NothingStored:
            return ()
        return {lane.target_topic for lane in lanes.values() if lane.target_topic}

    return LostDatastreams(services.control, services.lost, services.restored, written)


LostCallDep = Annotated[_LostCall, Depends(_lost_call)]


@router.get("")
def list_lost(services: ServicesDep) -> list[DatastreamAnswer]:
    """List datastreams that are missing although they were not deleted.

    Datastreams are lost if the coordination store has lost its data, or was restored from older data. The
    definitions are the last versions that an instance has read.
    """
    found = _lost_of(services).all()
    return [DatastreamAnswer.from_datastream(lost.datastream) for lost in found]


@router.get("/{name}", responses=problems(404, 409))
def get_lost(call: LostCallDep, response: Response) -> DatastreamAnswer:
    """Return one lost datastream.

    Send the ETag of the response as If-Match to restore or forget exactly this version.
    """
    found = call.lost.get(call.name)
    response.headers["ETag"] = etag_of(found)
    return DatastreamAnswer.from_datastream(found.datastream)


@router.post("/{name}/restore", responses=problems(404, 409, 412, 422))
async def restore_lost(
    call: LostCallDep,
    body: HaltBody,
    request: Request,
    services: ServicesDep,
    reads: ReadsDep,
    response: Response,
    dry_run: DryRunFlag = False,
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Restore a lost datastream with its pauses; its lanes continue from their checkpoints.

    The definition is checked like any creation, and rejected if a datastream with the same name was created
    in the meantime. Requires permission for the datastreams of every owner.
    """
    cause = bounds.cause(body.reason, caller_of(request, body.requested_by))

    def command() -> CreateDatastream:
        body.until_ms(services.clock.now_ms(), is_pause=False)  # rejects an end
        return call.lost.to_restore(call.name, call.version(), *cause)

    def restore() -> DatastreamAnswer:
        return written_answer(call.lost.restore(command()), reads, response)

    return await (call.dry_runs.command(command) if dry_run else run_in_threadpool(restore))


@router.delete("/{name}", status_code=200, responses=problems(404, 409, 412))
def forget_lost(
    call: LostCallDep,
    request: Request,
    dry_run: Annotated[
        bool, Query(description="dry run: return the datastream that would be forgotten")
    ] = False,
    reason: Annotated[str, Query(description="reason, recorded in the event")] = "",
    requested_by: Annotated[str, Query(description="requester, recorded in the event")] = "",
) -> DatastreamAnswer:
    """Forget a lost datastream permanently.

    Destination topics and checkpoints are kept. Requires permission for the datastreams of every owner.
    """
    cause = bounds.cause(reason, caller_of(request, requested_by))

    if dry_run:
        found = call.lost.to_forget(call.name, call.version())
    else:
        found = call.lost.forget(call.name, call.version(), *cause)
    return DatastreamAnswer.from_datastream(found.datastream)
