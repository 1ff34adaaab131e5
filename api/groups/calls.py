"""A request that changes a group of datastreams, executed or as a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Response

from api.calls.slow_calls import SlowCalls
from api.datastreams.backlogs import backlogs_of
from api.dependencies import ReadsDep, ServicesDep, SlowCallsDep
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
    slow_calls: SlowCalls
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

    def shown(self, command: ChangeGroup) -> UpdatePlanAnswer:
        """Return the effect of a command. Raises the errors that executing it would raise, and
        Unreachable."""
        expected = self.services.control.groups.expected(command)
        changes = [(before.datastream, after) for before, after in expected]
        preview = self.services.preview_update([after for _, after in changes])
        backlogs = backlogs_of(preview, self.services)
        return UpdatePlanAnswer.of_group(self.group, changes, preview, backlogs)


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
    slow_calls: SlowCallsDep,
    response: Response,
    if_match: IfMatch,
) -> GroupCall:
    return GroupCall(GroupName(prefix), services, reads, slow_calls, response, if_match)


GroupCallDep = Annotated[GroupCall, Depends(_group_call)]
