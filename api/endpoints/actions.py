"""/v1/datastreams/{name}: what is done with a datastream as it is defined. Each call honours If-Match where
it is sent, and answers with the ETag of the version that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Response

from api.datastreams.answers import NamePath, cause_of, damaged_answer, written_answer
from api.dependencies import ReadsDep, ServicesDep
from api.etags import IfMatch, etag_of, named_version
from api.schemas.datastreams import DatastreamAnswer
from api.schemas.partitions import HaltBody, MoveAnswer, MoveBody, PausesBody
from api.schemas.problems import problems
from mirror.control.commands import ChangePauses, ChangeStatus, MovePartitions
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


@router.delete("/{name}", status_code=202, responses=problems(404, 409, 412))
def delete(
    name: NamePath, services: ServicesDep, reads: ReadsDep, response: Response, if_match: IfMatch
) -> DatastreamAnswer:
    """Mark for removal; it disappears once its lanes are released, one that is damaged at once."""
    key = DatastreamName(name)
    found = services.control.delete(key, named_version(services.control, key, if_match))
    if isinstance(found, DamagedDefinition):
        return damaged_answer(found, None, services)
    return written_answer(found, reads, response)


@router.post("/{name}/pause-partitions", responses=problems(404, 409, 412, 422))
def pause_partitions(
    name: NamePath,
    body: PausesBody,
    services: ServicesDep,
    reads: ReadsDep,
    response: Response,
    if_match: IfMatch,
) -> DatastreamAnswer:
    """Stop copying some partitions until somebody resumes them, or for a time; nothing else is touched."""
    until_ms = body.until_ms(services.clock.now_ms(), is_pause=True)
    key, partitions = DatastreamName(name), read_partitions(body.partitions)
    before = named_version(services.control, key, if_match)
    command = ChangePauses(key, partitions, True, *cause_of(body), before, until_ms)
    return written_answer(services.control.change_pauses(command), reads, response)


@router.post("/{name}/resume-partitions", responses=problems(404, 409, 412, 422))
def resume_partitions(
    name: NamePath,
    body: PausesBody,
    services: ServicesDep,
    reads: ReadsDep,
    response: Response,
    if_match: IfMatch,
) -> DatastreamAnswer:
    """Copy paused partitions again, from where they stood."""
    body.until_ms(services.clock.now_ms(), is_pause=False)
    key, partitions = DatastreamName(name), read_partitions(body.partitions)
    before = named_version(services.control, key, if_match)
    command = ChangePauses(key, partitions, False, *cause_of(body), before)
    return written_answer(services.control.change_pauses(command), reads, response)


@router.post("/{name}/move", status_code=202, responses=problems(404, 409, 412))
def move(
    name: NamePath,
    body: MoveBody,
    services: ServicesDep,
    reads: ReadsDep,
    response: Response,
    if_match: IfMatch,
) -> MoveAnswer:
    """Bring partitions to an instance; the next plan does it. The definition keeps its version."""
    key, partitions = DatastreamName(name), frozenset(TopicPartition.parse(one) for one in body.partitions)
    before = named_version(services.control, key, if_match)
    stored = before or services.control.stored(key)
    command = MovePartitions(key, partitions, body.instance, body.requested_by, before)
    answer = MoveAnswer(request=services.control.move(command))
    response.headers["ETag"] = etag_of(stored)
    return answer


StatusAction = Literal["pause", "resume", "stop"]


async def _status_change(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    response: Response,
    if_match: IfMatch,
    body: HaltBody | None = None,
) -> Callable[[StatusAction], DatastreamAnswer]:
    def change(action: StatusAction) -> DatastreamAnswer:
        key, why = DatastreamName(name), body or HaltBody()
        until_ms = why.until_ms(services.clock.now_ms(), is_pause=action == "pause")
        before = named_version(services.control, key, if_match)
        command = ChangeStatus(key, action, *cause_of(why), before, until_ms)
        return written_answer(services.control.change_status(command), reads, response)

    return change


StatusChangeDep = Annotated[Callable[[StatusAction], DatastreamAnswer], Depends(_status_change)]


@router.post("/{name}/pause", responses=problems(404, 409, 412, 422))
def pause(change: StatusChangeDep) -> DatastreamAnswer:
    """Stop copying until somebody resumes it, or for a time; its tasks stay where they are. To pause what is
    paused with another end changes when it ends."""
    return change("pause")


@router.post("/{name}/resume", responses=problems(404, 409, 412, 422))
def resume(change: StatusChangeDep) -> DatastreamAnswer:
    """Copy again what is paused or stopped, from where it stood."""
    return change("resume")


@router.post("/{name}/stop", responses=problems(404, 409, 412, 422))
def stop(change: StatusChangeDep) -> DatastreamAnswer:
    """Stop copying and give up its tasks until somebody resumes it."""
    return change("stop")
