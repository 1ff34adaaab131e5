"""/v1/groups/{prefix}: actions on all datastreams that share tasks, all or nothing."""

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
    """Return all datastreams that share tasks. The header ETag is the version of the whole group: it changes
    if a member changes, is added or is removed."""
    group = GroupName(prefix)
    members = [
        one
        for one in reads.definitions().readable
        if one.datastream.group == group and one.datastream.status is not DatastreamStatus.DELETING
    ]
    if not members:
        raise NotFound(f"no datastream of group {shown(prefix)}")
    return answer_of_group(group, members, reads, response)


@router.post("/{prefix}/pause", responses=problems(404, 409, 412, 422))
async def pause_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRun = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Pause all datastreams that share tasks, until resumed or for a time, in one transaction. An already
    paused one stays paused until the later end, a stopped one stays stopped; 409 if one cannot be paused, or
    all are paused already. With If-Match, no member may have changed since; one created concurrently is not
    paused."""
    return await _change(call, "pause", body, dry_run=dry_run)


@router.post("/{prefix}/resume", responses=problems(404, 409, 412, 422))
async def resume_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRun = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Resume all paused datastreams that share tasks from their positions, in one transaction. Stopped ones
    stay stopped; 409 if none is paused."""
    return await _change(call, "resume", body, dry_run=dry_run)


async def _change(
    call: GroupCall, action: str, body: HaltBody, *, dry_run: bool
) -> GroupMembersAnswer | UpdatePlanAnswer:
    def command() -> ChangeGroup:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=action == "pause")
        return ChangeGroup(call.group, action, *cause_of(body), call.version(), until_ms)

    if dry_run:
        return await call.shown(command)
    return await run_in_threadpool(lambda: call.carried_out(command()))
