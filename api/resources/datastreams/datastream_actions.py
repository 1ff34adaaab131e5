"""/v1/datastreams/{name}: actions on a datastream.

Each call supports If-Match, and returns the ETag of the resulting version. With `dry_run`, a call only shows
its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.reads import Reads
from api.http.middleware import caller_of
from api.http.problems import described, problems
from api.http.request_headers import IfMatch, Tags, etag_of, named_version
from api.resources.datastreams.datastream_changes import RestartBody, UpdatePlanAnswer
from api.resources.datastreams.datastream_models import DatastreamAnswer
from api.resources.datastreams.datastreams import damaged_answer, written_answer
from api.resources.datastreams.dry_runs import SHOWN, Change, DryRunFlag, DryRuns, DryRunsDep
from api.resources.datastreams.halts import HaltBody, MoveAnswer, MoveBody, PausesBody
from api.resources.operations import located
from api.services import Services
from mirror.control.commands import ChangePauses, ChangeStatus, MovePartitions, UpdateDatastream
from mirror.coordination.operation import halting, waiting
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.model import bounds
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.datastreams.starts import restarted
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


@dataclass(frozen=True)
class DatastreamCall:
    """Parameters of a request that acts on one datastream.

    `tags`: versions to which the change may apply; None means any version.
    """

    name: DatastreamName
    services: Services
    reads: Reads
    dry_runs: DryRuns
    response: Response
    tags: Tags | None

    def version(self) -> StoredDatastream | None:
        """Return the definition whose version If-Match names, None without a version. Raises NotFound,
        StaleVersion."""
        return named_version(self.services.control, self.name, self.tags)

    async def perform(
        self,
        command: Callable[[], ChangeStatus | ChangePauses],
        carry_out: Callable[[], DatastreamAnswer],
        *,
        dry_run: bool,
    ) -> DatastreamAnswer | UpdatePlanAnswer:
        """Execute an action and return the response, or only the effect of a dry run. `carry_out` executes
        the action; `command` returns the change that a dry run evaluates."""
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
_BEGUN: Final = {"headers": described("Location")}


@router.delete("/{name}", status_code=202, responses={**SHOWN, 202: _BEGUN, **problems(404, 409, 412)})
async def delete(
    call: CallDep,
    request: Request,
    dry_run: DryRunFlag = False,
    reason: Annotated[str, Query(description="reason, stored until the removal and in the event")] = "",
    requested_by: Annotated[
        str, Query(description="requester, stored until the removal and in the event")
    ] = "",
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Delete a datastream.

    The datastream disappears once its lanes are released; the operation at `Location` reports this. A damaged
    datastream disappears immediately, without an operation. Without `requested_by`, the caller's address and
    the `X-Request-ID` are recorded.
    """
    cause = reason, caller_of(request, requested_by)

    def command() -> ChangeStatus:
        return ChangeStatus(call.name, "delete", *bounds.cause(*cause), call.version())

    def remove() -> DatastreamAnswer:
        found = call.services.control.delete(command())
        if isinstance(found, DamagedDefinition):
            return damaged_answer(found, None, call.services)
        return _halting_answer(call, found)

    return await call.perform(command, remove, dry_run=dry_run)


@router.post("/{name}/pause-partitions", responses=problems(404, 409, 412, 422))
async def pause_partitions(
    call: CallDep, body: PausesBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Pause partitions until they are resumed or the pause expires.

    Other partitions are not affected.
    """
    return await _change_pauses(call, body, is_pause=True, dry_run=dry_run)


@router.post("/{name}/resume-partitions", responses=problems(404, 409, 412, 422))
async def resume_partitions(
    call: CallDep, body: PausesBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Resume paused partitions from their positions."""
    return await _change_pauses(call, body, is_pause=False, dry_run=dry_run)


async def _change_pauses(
    call: DatastreamCall, body: PausesBody, *, is_pause: bool, dry_run: bool
) -> DatastreamAnswer | UpdatePlanAnswer:
    control = call.services.control

    def command() -> ChangePauses:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=is_pause)
        partitions = read_partitions(body.partitions)
        return ChangePauses(call.name, partitions, is_pause, *body.cause, call.version(), until_ms)

    def change() -> DatastreamAnswer:
        return written_answer(control.change_pauses(command()), call.reads, call.response)

    return await call.perform(command, change, dry_run=dry_run)


@router.post("/{name}/restart-from", responses=problems(404, 409, 412, 422))
async def restart_from(
    call: CallDep, slow_calls: SlowCallsDep, body: RestartBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Discard all progress and copy again from a start position.

    Use this operation after the destination was rebuilt. The request is rejected if destination topics
    contain records, unless duplicates are allowed. The clusters now found at the addresses of source and
    destination are accepted, even with other cluster ids, for all datastreams with these addresses.
    """
    services = call.services

    def command() -> UpdateDatastream:
        version = call.version()
        stored = version or services.control.stored(call.name)
        after = restarted(stored.datastream, body.start, services.clock.now_ms())
        update = UpdateDatastream(
            stored, after, version is not None, *bounds.cause(body.reason, body.requested_by)
        )
        services.control.check_update((update,))
        if not body.allow_duplicates:
            services.restarts.require_empty(after)
        return update

    def changes() -> list[Change]:
        update = command()
        return [(update.before.datastream, update.after)]

    def restart() -> DatastreamAnswer:
        update = command()
        changed = services.restarts.changed(update.after)
        services.control.check_clusters(update.after, changed)
        # In one transaction, because lanes must not use an accepted cluster without the restart.
        update = replace(update, entries=services.restarts.acceptance(changed))
        return written_answer(services.control.update(update), call.reads, call.response)

    if dry_run:
        return await call.dry_runs.changes(changes)
    return await slow_calls.run(restart)


@router.post("/{name}/move", status_code=202, responses={**SHOWN, 202: _BEGUN, **problems(404, 409, 412)})
async def move(call: CallDep, body: MoveBody, dry_run: DryRunFlag = False) -> MoveAnswer | UpdatePlanAnswer:
    """Move partitions to an instance with the next plan. The version of the definition does not change."""
    control = call.services.control

    def command() -> MovePartitions:
        partitions = frozenset(TopicPartition.parse(partition) for partition in body.partitions)
        return MovePartitions(call.name, partitions, body.instance, body.requested_by, call.version())

    def ask() -> MoveAnswer:
        asked_for = command()
        stored = asked_for.before or control.stored(call.name)
        queued = waiting(control.move(asked_for))
        call.response.headers["ETag"] = etag_of(stored)
        return MoveAnswer(request=queued.id, operation=located(queued, call.response))

    if dry_run:
        call.response.status_code = HTTPStatus.OK
        return await call.dry_runs.move(command)
    return await run_in_threadpool(ask)


@router.post("/{name}/pause", responses=problems(404, 409, 412, 422))
async def pause(
    call: CallDep, body: HaltBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Pause a datastream until it is resumed or the pause expires.

    The tasks of a paused datastream stay on their instances. If the datastream is already paused, the new
    expiry time replaces the previous one.
    """
    return await _change_status(call, "pause", body, dry_run=dry_run)


@router.post("/{name}/resume", responses=problems(404, 409, 412, 422))
async def resume(
    call: CallDep, body: HaltBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Resume a paused or stopped datastream from its positions."""
    return await _change_status(call, "resume", body, dry_run=dry_run)


@router.post("/{name}/stop", responses={200: _BEGUN, **problems(404, 409, 412, 422)})
async def stop(
    call: CallDep, body: HaltBody, dry_run: DryRunFlag = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Stop a datastream, and release its tasks until it is resumed. The operation at `Location` is done when
    the status is STOPPED."""
    return await _change_status(call, "stop", body, dry_run=dry_run)


async def _change_status(
    call: DatastreamCall, action: str, body: HaltBody, *, dry_run: bool
) -> DatastreamAnswer | UpdatePlanAnswer:
    control = call.services.control

    def command() -> ChangeStatus:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=action == "pause")
        return ChangeStatus(call.name, action, *body.cause, call.version(), until_ms)

    def change() -> DatastreamAnswer:
        return _halting_answer(call, control.change_status(command()))

    return await call.perform(command, change, dry_run=dry_run)


def _halting_answer(call: DatastreamCall, stored: StoredDatastream) -> DatastreamAnswer:
    """Return the response to an action. After a stop or deletion, the Location header contains its
    operation."""
    if (operation := halting(stored.datastream)) is not None:
        located(operation, call.response)
    return written_answer(stored, call.reads, call.response)
