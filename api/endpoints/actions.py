"""/v1/datastreams/{name}: what is done with a datastream as it is defined. Each call honours If-Match where
it is sent, and answers with the ETag of the version that it leaves; with `dry_run` it only shows what it
would do."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from api.calls.callers import caller_of
from api.datastreams.answers import cause_of, damaged_answer, located, written_answer
from api.datastreams.backlogs import backlogs_of
from api.datastreams.calls import SHOWN, CallDep, DatastreamCall, DryRun
from api.datastreams.moves import shown_move
from api.etags import etag_of
from api.schemas.changes import RestartBody, UpdatePlanAnswer
from api.schemas.datastreams import DatastreamAnswer
from api.schemas.headers import described
from api.schemas.partitions import HaltBody, MoveAnswer, MoveBody, PausesBody
from api.schemas.problems import problems
from mirror.control.commands import ChangePauses, ChangeStatus, MovePartitions, UpdateDatastream
from mirror.coordination.operations.operation import halting, waiting
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.datastreams.starts import restarted
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])
_BEGUN: Final = {"headers": described("Location")}


@router.delete("/{name}", status_code=202, responses={**SHOWN, 202: _BEGUN, **problems(404, 409, 412)})
async def delete(
    call: CallDep,
    request: Request,
    dry_run: DryRun = False,
    reason: Annotated[str, Query(description="kept until it is gone, and with the event")] = "",
    requested_by: Annotated[str, Query(description="who asks; kept as the reason is")] = "",
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Mark for removal; it disappears once its lanes are released, which the operation at `Location` says;
    one that is damaged disappears at once, without an operation. Where nobody says who asks, the address that
    the call came from and its `X-Request-ID` are kept."""
    why = HaltBody(reason=reason, requested_by=caller_of(request, requested_by))

    def command() -> ChangeStatus:
        return ChangeStatus(call.name, "delete", *cause_of(why), call.version())

    def remove() -> DatastreamAnswer:
        found = call.services.control.delete(command())
        if isinstance(found, DamagedDefinition):
            return damaged_answer(found, None, call.services)
        return _halting_answer(call, found)

    return await call.done(command, remove, dry_run=dry_run)


@router.post("/{name}/pause-partitions", responses=problems(404, 409, 412, 422))
async def pause_partitions(
    call: CallDep, body: PausesBody, dry_run: DryRun = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Stop copying some partitions until somebody resumes them, or for a time; nothing else is touched."""
    return await _change_pauses(call, body, is_pause=True, dry_run=dry_run)


@router.post("/{name}/resume-partitions", responses=problems(404, 409, 412, 422))
async def resume_partitions(
    call: CallDep, body: PausesBody, dry_run: DryRun = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Copy paused partitions again, from where they stood."""
    return await _change_pauses(call, body, is_pause=False, dry_run=dry_run)


async def _change_pauses(
    call: DatastreamCall, body: PausesBody, *, is_pause: bool, dry_run: bool
) -> DatastreamAnswer | UpdatePlanAnswer:
    control = call.services.control

    def command() -> ChangePauses:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=is_pause)
        partitions = read_partitions(body.partitions)
        return ChangePauses(call.name, partitions, is_pause, *cause_of(body), call.version(), until_ms)

    def change() -> DatastreamAnswer:
        return written_answer(control.change_pauses(command()), call.reads, call.response)

    return await call.done(command, change, dry_run=dry_run)


@router.post("/{name}/restart-from", responses=problems(404, 409, 412, 422))
async def restart_from(
    call: CallDep, body: RestartBody, dry_run: DryRun = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Forget what was copied and copy from a start again, for a destination that was rebuilt. It is refused
    where destination topics hold records, unless duplicates are allowed. The clusters that answer at the
    addresses of its source and destination are accepted, for all datastreams that have these."""
    services, why = call.services, HaltBody(reason=body.reason, requested_by=body.requested_by)

    def command() -> UpdateDatastream:
        version = call.version()
        stored = version or services.control.stored(call.name)
        after = restarted(stored.datastream, body.start, services.clock.now_ms())
        asked = UpdateDatastream(stored, after, version is not None, *cause_of(why))
        services.control.check_update((asked,))
        if not body.allow_duplicates:
            services.restarts.require_empty(after)
        return asked

    def preview() -> UpdatePlanAnswer:
        asked = command()
        found = services.preview_update((asked.after,))
        before, after = asked.before.datastream, asked.after
        return UpdatePlanAnswer.from_preview(before, after, found, backlogs_of(found, services))

    def restart() -> DatastreamAnswer:
        asked = command()
        changed = services.restarts.changed(asked.after)
        services.control.check_clusters(asked.after, changed)
        services.restarts.accept(changed)
        return written_answer(services.control.update(asked), call.reads, call.response)

    return await call.slow_calls.run(preview if dry_run else restart)


@router.post("/{name}/move", status_code=202, responses={**SHOWN, 202: _BEGUN, **problems(404, 409, 412)})
async def move(call: CallDep, body: MoveBody, dry_run: DryRun = False) -> MoveAnswer | UpdatePlanAnswer:
    """Bring partitions to an instance; the next plan does it. The definition keeps its version."""
    control = call.services.control

    def command() -> MovePartitions:
        partitions = frozenset(TopicPartition.parse(one) for one in body.partitions)
        return MovePartitions(call.name, partitions, body.instance, body.requested_by, call.version())

    def ask() -> MoveAnswer:
        asked_for = command()
        stored = asked_for.before or control.stored(call.name)
        asked = waiting(control.move(asked_for))
        call.response.headers["ETag"] = etag_of(stored)
        return MoveAnswer(request=asked.identity, operation=located(asked, call.response))

    if dry_run:
        call.response.status_code = HTTPStatus.OK
        return await call.slow_calls.run(lambda: shown_move(command(), call.services))
    return await run_in_threadpool(ask)


@router.post("/{name}/pause", responses=problems(404, 409, 412, 422))
async def pause(
    call: CallDep, body: HaltBody, dry_run: DryRun = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Stop copying until somebody resumes it, or for a time; its tasks stay where they are. To pause what is
    paused with another end changes when it ends."""
    return await _change_status(call, "pause", body, dry_run=dry_run)


@router.post("/{name}/resume", responses=problems(404, 409, 412, 422))
async def resume(
    call: CallDep, body: HaltBody, dry_run: DryRun = False
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Copy again what is paused or stopped, from where it stood."""
    return await _change_status(call, "resume", body, dry_run=dry_run)


@router.post("/{name}/stop", responses={200: _BEGUN, **problems(404, 409, 412, 422)})
async def stop(call: CallDep, body: HaltBody, dry_run: DryRun = False) -> DatastreamAnswer | UpdatePlanAnswer:
    """Stop copying and give up its tasks until somebody resumes it; the operation at `Location` is done when
    it is STOPPED."""
    return await _change_status(call, "stop", body, dry_run=dry_run)


async def _change_status(
    call: DatastreamCall, action: str, body: HaltBody, *, dry_run: bool
) -> DatastreamAnswer | UpdatePlanAnswer:
    control = call.services.control

    def command() -> ChangeStatus:
        until_ms = body.until_ms(call.services.clock.now_ms(), is_pause=action == "pause")
        return ChangeStatus(call.name, action, *cause_of(body), call.version(), until_ms)

    def change() -> DatastreamAnswer:
        return _halting_answer(call, control.change_status(command()))

    return await call.done(command, change, dry_run=dry_run)


def _halting_answer(call: DatastreamCall, stored: StoredDatastream) -> DatastreamAnswer:
    """With the header that says where to ask how far the stop or the deletion is, if it is one."""
    if (operation := halting(stored.datastream)) is not None:
        located(operation, call.response)
    return written_answer(stored, call.reads, call.response)
