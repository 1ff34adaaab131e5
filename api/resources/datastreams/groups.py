"""/v1/groups/{prefix}: actions on all datastreams that share tasks. An action changes all or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import ReadsDep, ServicesDep
from api.fleet.reads import Reads
from api.http.problems import AnswerModel, problems
from api.http.request_headers import IfMatch, Tags, etag_of_group, named_members
from api.resources.datastreams.datastream_changes import UpdatePlanAnswer
from api.resources.datastreams.datastream_models import DatastreamAnswer
from api.resources.datastreams.dry_runs import Change, DryRunFlag, DryRuns, DryRunsDep
from api.resources.datastreams.halts import HaltBody
from api.services import Services
from mirror.control.commands import ChangeGroup
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import GroupName

router = APIRouter(prefix="/v1/groups", tags=["datastreams"])


class GroupMembersAnswer(AnswerModel):
    """Datastreams that share tasks, except those that are being deleted."""

    prefix: str
    """Task prefix of the group, or the name of a datastream without `system.taskPrefix`."""
    datastreams: list[DatastreamAnswer]
    """Datastreams by name."""

    @classmethod
    def of(cls, prefix: str, found: Sequence[DatastreamAnswer]) -> GroupMembersAnswer:
        """Return the datastreams of a group as a response."""
        return cls(prefix=prefix, datastreams=sorted(found, key=lambda datastream: datastream.name))


PrefixPath = Annotated[
    str,
    Path(description="task prefix of the group: `system.taskPrefix`, or the name of a datastream without it"),
]


@dataclass(frozen=True)
class GroupCall:
    """Parameters of a request that acts on a group of datastreams.

    `tags`: versions to which the change may apply; None means any version.
    """

    group: GroupName
    services: Services
    reads: Reads
    dry_runs: DryRuns
    response: Response
    tags: Tags | None

    def version(self) -> tuple[StoredDatastream, ...] | None:
        """Return the definitions whose version If-Match names, None without a version. Raises NotFound,
        DamagedState, StaleVersion."""
        return named_members(self.services.control, self.group, self.tags)

    def carried_out(self, command: ChangeGroup) -> GroupMembersAnswer:
        """Execute a command, and return all datastreams of the group as stored."""
        written = self.services.control.groups.change(command)
        for change in written:
            self.reads.acknowledged(change)
        return answer_of_group(self.group, written, self.reads, self.response)

    async def shown(self, command: Callable[[], ChangeGroup]) -> UpdatePlanAnswer:
        """Return the effect of a command on a group, as a dry run. Raises the errors that executing the
        command would raise, and Unreachable."""

        def changes() -> list[Change]:
            expected = self.services.control.groups.expected(command())
            return [(before.datastream, after) for before, after in expected]

        return await self.dry_runs.changes(changes, self.group)


def answer_of_group(
    group: GroupName, members: Sequence[StoredDatastream], reads: Reads, response: Response
) -> GroupMembersAnswer:
    """Return a group's definitions and problems. The ETag header contains the version of the whole group."""
    response.headers["ETag"] = etag_of_group(members)
    known, planning = reads.problems(), reads.assessments().get(group)
    found = [
        DatastreamAnswer.from_datastream(member.datastream, known.get(member.datastream.name), planning)
        for member in members
    ]
    return GroupMembersAnswer.of(group, found)


async def _group_call(
    prefix: PrefixPath,
    services: ServicesDep,
    reads: ReadsDep,
    dry_runs: DryRunsDep,
    response: Response,
    if_match: IfMatch,
) -> GroupCall:
    return GroupCall(GroupName(prefix), services, reads, dry_runs, response, if_match)


GroupCallDep = Annotated[GroupCall, Depends(_group_call)]


@router.get("/{prefix}", responses=problems(404))
def get_group(prefix: PrefixPath, reads: ReadsDep, response: Response) -> GroupMembersAnswer:
    """Return all datastreams that share tasks.

    The header ETag contains the version of the whole group, which changes if a datastream of the group
    changes, is added or is removed.
    """
    group = GroupName(prefix)
    members = [
        stored
        for stored in reads.definitions().readable
        if stored.datastream.group == group and stored.datastream.status is not DatastreamStatus.DELETING
    ]
    if not members:
        raise NotFound(f"no datastream of group {shown(prefix)}")
    return answer_of_group(group, members, reads, response)


@router.post("/{prefix}/pause", responses=problems(404, 409, 412, 422))
async def pause_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRunFlag = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Pause all datastreams that share tasks, in one transaction.

    The pause lasts until it expires or the datastreams are resumed. A datastream that is already paused stays
    paused until the later of the two expiry times; a stopped datastream stays stopped. The response is 409 if
    a datastream cannot be paused, or if all are already paused. With If-Match, the request is rejected if a
    datastream of the group has changed since the tag was returned. A datastream that is created concurrently
    is not paused.
    """
    return await _change(call, "pause", body, dry_run=dry_run)


@router.post("/{prefix}/resume", responses=problems(404, 409, 412, 422))
async def resume_group(
    call: GroupCallDep, body: HaltBody, dry_run: DryRunFlag = False
) -> GroupMembersAnswer | UpdatePlanAnswer:
    """Resume all paused datastreams that share tasks, in one transaction.

    The datastreams continue from their checkpoints. Stopped datastreams stay stopped. The response is 409 if
    no datastream is paused.
    """
    return await _change(call, "resume", body, dry_run=dry_run)


async def _change(
    call: GroupCall, action: str, body: HaltBody, *, dry_run: bool
) -> GroupMembersAnswer | UpdatePlanAnswer:
    def command() -> ChangeGroup:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=action == "pause")
        return ChangeGroup(call.group, action, *body.cause, call.version(), until_ms)

    if dry_run:
        return await call.shown(command)
    return await run_in_threadpool(lambda: call.carried_out(command()))
