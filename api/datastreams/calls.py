"""A request that changes a datastream, executed or as a dry run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import NamePath
from api.dependencies import DryRunsDep, ReadsDep, ServicesDep
from api.dry_runs.dry_runs import DryRuns
from api.etags import IfMatch, Tags, named_version
from api.fleet.reads import Reads
from api.schemas.changes import UpdatePlanAnswer
from api.schemas.datastreams import DatastreamAnswer
from api.services import Services
from mirror.control.commands import ChangePauses, ChangeStatus
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.model.identifiers import DatastreamName

DryRun = Annotated[bool, Query(description="dry run: return the lanes that would start, stop and move")]
SHOWN: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": UpdatePlanAnswer, "description": "Effect of the change; with `dry_run`."}
}
"""Responses for endpoints that return another status when they make a change."""


@dataclass(frozen=True)
class DatastreamCall:
    """Parameters of the request. `tags`: versions to which the change may apply; None: any."""

    name: DatastreamName
    services: Services
    reads: Reads
    dry_runs: DryRuns
    response: Response
    tags: Tags | None

    def version(self) -> StoredDatastream | None:
        """Return the version named in the request, or None. Raises NotFound, StaleVersion."""
        return named_version(self.services.control, self.name, self.tags)

    async def done(
        self,
        command: Callable[[], ChangeStatus | ChangePauses],
        carry_out: Callable[[], DatastreamAnswer],
        *,
        dry_run: bool,
    ) -> DatastreamAnswer | UpdatePlanAnswer:
        """Return the response. `command`: the change that a dry run evaluates without writing anything."""
        if not dry_run:
            return await run_in_threadpool(carry_out)
        self.response.status_code = HTTPStatus.OK
        return await self.dry_runs.command(command)


async def _datastream_call(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    dry_runs: DryRunsDep,
    response: Response,
    if_match: IfMatch,
) -> DatastreamCall:
    return DatastreamCall(DatastreamName(name), services, reads, dry_runs, response, if_match)


CallDep = Annotated[DatastreamCall, Depends(_datastream_call)]
