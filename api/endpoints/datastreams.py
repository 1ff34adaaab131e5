"""/v1/datastreams"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Path, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.calls.slow_calls import SlowCalls
from api.dependencies import ReadsDep, ServicesDep, SlowCallsDep
from api.endpoints.ledgers import progress_of
from api.etags import IfMatch, etag_of, is_exact
from api.fleet.reads import Reads
from api.schemas.changes import UpdateBody, UpdatePlanAnswer, patched
from api.schemas.datastreams import DatastreamAnswer, DatastreamBody
from api.schemas.partitions import HaltBody, MoveAnswer, MoveBody, PausesBody
from api.schemas.problems import problems
from api.schemas.progress import LaneProgressAnswer
from api.services import Services
from mirror.control.commands import (
    ChangePauses,
    ChangeStatus,
    CreateDatastream,
    MovePartitions,
    UpdateDatastream,
)
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.coordination.stores.problems import Problem
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


@dataclass(frozen=True)
class _ChangeTerms:
    """How a change is asked for."""

    slow_calls: SlowCalls
    reads: Reads
    if_match: str | None
    dry_run: bool
    why: HaltBody


async def _change_terms(
    slow_calls: SlowCallsDep,
    reads: ReadsDep,
    if_match: IfMatch = None,
    dry_run: Annotated[bool, Query(description="only say what would start, stop and move")] = False,
    reason: Annotated[str, Query(description="kept with the event")] = "",
    requested_by: Annotated[str, Query(description="who asks; kept with the event")] = "",
) -> _ChangeTerms:
    return _ChangeTerms(
        slow_calls, reads, if_match, dry_run, HaltBody(reason=reason, requested_by=requested_by)
    )


TermsDep = Annotated[_ChangeTerms, Depends(_change_terms)]
NamePath = Annotated[str, Path(description="the datastream's name")]


@router.post("", status_code=201, responses=problems(409, 422))
def create(
    body: DatastreamBody, services: ServicesDep, reads: ReadsDep, response: Response
) -> DatastreamAnswer:
    """Register a datastream; the leader makes it READY and plans its tasks."""
    datastream = body.to_datastream(services.default_destination, services.cluster_of_address)
    stored = services.control.create(CreateDatastream(datastream))
    reads.acknowledged(StoredDatastream(stored, 0))
    response.headers["Location"] = f"/v1/datastreams/{quote(stored.name, safe='')}"
    response.headers["ETag"] = etag_of(stored, 0)
    return DatastreamAnswer.from_datastream(stored)


@router.get("")
def list_all(services: ServicesDep, reads: ReadsDep) -> list[DatastreamAnswer]:
    """All datastreams by name, also those of which the definition is damaged."""
    found = reads.definitions()
    problems = reads.problems()
    stored = [one.datastream for one in found.readable]
    answers = [DatastreamAnswer.from_datastream(one, problems.get(one.name)) for one in stored]
    answers += [_damaged(one, problems.get(one.name), services) for one in found.damaged]
    return sorted(answers, key=lambda one: one.name)


@router.get("/{name}", responses=problems(404))
def get(name: NamePath, services: ServicesDep, reads: ReadsDep, response: Response) -> DatastreamAnswer:
    """One datastream; the header ETag names the version, for If-Match of a change."""
    found = reads.look(DatastreamName(name))
    if isinstance(found, DamagedDefinition):
        return _damaged(found, reads.problem(found.name), services)
    return _answer(found, reads, response)


def _answer(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    response.headers["ETag"] = etag_of(stored.datastream, stored.version)
    return DatastreamAnswer.from_datastream(stored.datastream, reads.problem(stored.datastream.name))


@router.put("/{name}", responses=problems(404, 409, 412, 422, 428))
async def replace(
    name: NamePath, body: UpdateBody, services: ServicesDep, terms: TermsDep, response: Response
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Let a definition become this one; what can change and is left out has its default then. Only partitions
    that enter or leave start or stop."""
    return await _change(
        name,
        lambda present: body.to_datastream(present, services.cluster_of_address),
        services,
        terms,
        response,
    )


@router.patch("/{name}", responses=problems(404, 409, 412, 422, 428))
async def patch(
    name: NamePath,
    changes: Annotated[Any, Body(media_type="application/merge-patch+json")],
    services: ServicesDep,
    terms: TermsDep,
    response: Response,
) -> DatastreamAnswer | UpdatePlanAnswer:
    """Change what a merge patch (RFC 7386) of the definition names, and nothing else."""
    return await _change(
        name,
        lambda present: patched(present, changes, services.cluster_of_address),
        services,
        terms,
        response,
    )


async def _change(
    name: str,
    change: Callable[[Datastream], Datastream],
    services: Services,
    terms: _ChangeTerms,
    response: Response,
) -> DatastreamAnswer | UpdatePlanAnswer:
    def command() -> UpdateDatastream:
        stored = services.control.stored(DatastreamName(name))
        is_this = is_exact(stored, terms.if_match)
        return UpdateDatastream(stored, change(stored.datastream), is_this, *_cause(terms.why))

    def preview() -> UpdatePlanAnswer:
        asked = command()
        services.control.check_update((asked,))
        before, after = asked.before.datastream, asked.after
        return UpdatePlanAnswer.from_preview(before, after, services.preview_update((after,)))

    def update() -> DatastreamAnswer:
        stored = services.control.update(command())
        terms.reads.acknowledged(stored)
        return _answer(stored, terms.reads, response)

    return await (terms.slow_calls.run(preview) if terms.dry_run else run_in_threadpool(update))


def _damaged(found: DamagedDefinition, told: Problem | None, services: Services) -> DatastreamAnswer:
    """`told`: what the leader has noted, which says since when."""
    return DatastreamAnswer.from_damaged(found, told or Problem(found.problem, services.clock.now_ms()))


@router.get("/{name}/progress", responses=problems(404, 409))
async def progress(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    offset_map: Annotated[bool, Query(description="with every run of the offset maps")] = False,
) -> list[LaneProgressAnswer]:
    """Checkpoints, what became of every offset, and offset maps, as they were stored last; of all partitions
    of the datastream's group that go to its destination. What a former datastream of its name has copied to
    other topics is not shown."""

    def read() -> list[LaneProgressAnswer]:
        datastream = reads.stored(DatastreamName(name)).datastream
        stored = services.progress(datastream.destination, datastream.group)
        return progress_of(datastream, stored, services, with_map=offset_map)

    return await slow_calls.run(read)


@router.delete("/{name}", status_code=202, responses=problems(404, 409))
def delete(name: NamePath, services: ServicesDep) -> DatastreamAnswer:
    """Mark for removal; it disappears once its lanes are released, one that is damaged at once."""
    found = services.control.delete(DatastreamName(name))
    if isinstance(found, DamagedDefinition):
        return _damaged(found, None, services)
    return DatastreamAnswer.from_datastream(found)


@router.post("/{name}/pause-partitions", responses=problems(404, 409))
def pause_partitions(name: NamePath, body: PausesBody, services: ServicesDep) -> DatastreamAnswer:
    """Stop copying some partitions until somebody resumes them; nothing else is touched."""
    command = ChangePauses(DatastreamName(name), read_partitions(body.partitions), True, *_cause(body))
    return DatastreamAnswer.from_datastream(services.control.change_pauses(command))


@router.post("/{name}/resume-partitions", responses=problems(404, 409))
def resume_partitions(name: NamePath, body: PausesBody, services: ServicesDep) -> DatastreamAnswer:
    """Copy paused partitions again, from where they stood."""
    command = ChangePauses(DatastreamName(name), read_partitions(body.partitions), False, *_cause(body))
    return DatastreamAnswer.from_datastream(services.control.change_pauses(command))


@router.post("/{name}/move", status_code=202, responses=problems(404, 409))
def move(name: NamePath, body: MoveBody, services: ServicesDep) -> MoveAnswer:
    """Bring partitions to an instance; the next plan does it."""
    partitions = frozenset(TopicPartition.parse(one) for one in body.partitions)
    command = MovePartitions(DatastreamName(name), partitions, body.instance, body.requested_by)
    return MoveAnswer(request=services.control.move(command))


def _cause(body: HaltBody | PausesBody) -> tuple[str, str]:
    """Reason and who asks, as far as they can be kept. Raises InvalidRequest."""
    return (
        bounds.text("the reason", body.reason, bounds.LONGEST_REASON),
        bounds.text("requested_by", body.requested_by, bounds.LONGEST_NAME),
    )


@router.post("/{name}/{action}", responses=problems(404, 409))
def change(
    name: NamePath,
    action: Literal["pause", "resume", "stop"],
    services: ServicesDep,
    body: HaltBody | None = None,
) -> DatastreamAnswer:
    """Pause, resume or stop."""
    command = ChangeStatus(DatastreamName(name), action, *_cause(body or HaltBody()))
    changed = services.control.change_status(command)
    return DatastreamAnswer.from_datastream(changed)
