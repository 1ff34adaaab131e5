"""/v1/groups/{prefix}: what is done with all datastreams that share tasks, or with none of them."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import cause_of
from api.datastreams.calls import DryRun
from api.dependencies import ReadsDep
from api.groups.answers import GroupMembersAnswer
from api.groups.calls import GroupCall, GroupCallDep, PrefixPath, answer_of_group
from api.schemas.changes import UpdatePlanAnswer
from api.schemas.partitions import HaltBody
from api.schemas.problems import problems
from mirror.control.commands import ChangeGroup
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import GroupName

router = APIRouter(prefix="/v1/groups", tags=["datastreams"])


@router.get("/{prefix}", responses=problems(404))
def get_group(prefix: PrefixPath, reads: ReadsDep, response: Response) -> GroupMembersAnswer:
    """All datastreams that share tasks. The header ETag names the version of all: it is another one when one
    of them changes, comes or goes."""
    group = GroupName(prefix)
    members = [
        one
        for one in reads.definitions().readable
        if one.datastream.group == group and one.datastream.status is not DatastreamStatus.DELETING
    ]
    if not members:
        raise NotFound(f"no datastream has the tasks of {shown(prefix)}")
    return answer_of_group(group, members, reads, response)


@router.post("/{prefix}/pause", responses=problems(404, 409, 412, 422))
async def pause_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRun = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Stop copying of all that share tasks, until somebody resumes it or for a time: all in one transaction,
    or none. What is paused already stays so until the later of both ends, what is stopped stays stopped; 409
    where one cannot be paused, or all are so already. With If-Match of all, nothing may have happened to any
    since; one that is created meanwhile is not paused."""
    return await _change(call, "pause", body, dry_run=dry_run)


@router.post("/{prefix}/resume", responses=problems(404, 409, 412, 422))
async def resume_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRun = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Copy again what is paused of all that share tasks, from where it stood: all in one transaction, or
    none. What is stopped stays stopped; 409 where nothing is paused."""
    return await _change(call, "resume", body, dry_run=dry_run)


async def _change(
    call: GroupCall, action: str, body: HaltBody, *, dry_run: bool
) -> GroupMembersAnswer | UpdatePlanAnswer:
    def command() -> ChangeGroup:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=action == "pause")
        return ChangeGroup(call.group, action, *cause_of(body), call.version(), until_ms)

    if dry_run:
        return await call.slow_calls.run(lambda: call.shown(command()))
    return await run_in_threadpool(lambda: call.carried_out(command()))
