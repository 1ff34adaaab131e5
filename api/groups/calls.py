"""A request that changes a group of datastreams, executed or as a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Response

from api.dependencies import DryRunsDep, ReadsDep, ServicesDep
from api.dry_runs.dry_runs import Change, DryRuns
from api.etags import IfMatch, Tags, etag_of_group, named_members
from api.fleet.reads import Reads
from api.groups.answers import GroupMembersAnswer
from api.schemas.changes import UpdatePlanAnswer
from api.schemas.datastreams import DatastreamAnswer
from api.services import Services
from mirror.control.commands import ChangeGroup
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.model.identifiers import GroupName

PrefixPath = Annotated[
    str,
    Path(
        description="task prefix of the group: `system.taskPrefix`, or the name of a datastream without one"
    ),
]


@dataclass(frozen=True)
class GroupCall:
    """Parameters of the request. `tags`: versions to which the change may apply; None: any."""

    group: GroupName
    services: Services
    reads: Reads
    dry_runs: DryRuns
    response: Response
    tags: Tags | None

    def version(self) -> tuple[StoredDatastream, ...] | None:
        """Return the version named in the request, or None. Raises NotFound, DamagedState, StaleVersion."""
        return named_members(self.services.control, self.group, self.tags)

    def carried_out(self, command: ChangeGroup) -> GroupMembersAnswer:
        """Execute a command, and return all datastreams of the group as stored."""
        written = self.services.control.groups.change(command)
        for one in written:
            self.reads.acknowledged(one)
        return answer_of_group(self.group, written, self.reads, self.response)

    async def shown(self, command: Callable[[], ChangeGroup]) -> UpdatePlanAnswer:
        """Return the effect of a command. Raises the errors that executing it would raise, and
        Unreachable."""

        def changes() -> list[Change]:
            expected = self.services.control.groups.expected(command())
            return [(before.datastream, after) for before, after in expected]

        return await self.dry_runs.changes(changes, self.group)


def answer_of_group(
    group: GroupName, members: Sequence[StoredDatastream], reads: Reads, response: Response
) -> GroupMembersAnswer:
    """Return the definitions with their problems; the ETag header names the version of the whole group."""
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
