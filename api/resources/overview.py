"""/v1/overview: state and throughput of every datastream, for the first web page and other clients.

The response contains sums instead of partitions, to stay small. The queried instance combines the sums of all
instances with the definitions, the plan, the latest planning run and open incidents. Unknown numbers are
null.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.all_instances import AllInstances, ask_leader
from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.questions import FleetQuery
from api.http.problems import AnswerModel, LegibleJson, problems
from api.http.request_headers import accepts_gzip
from api.resources.datastreams.datastream_models import DAMAGED
from api.resources.movement import movements
from api.resources.topic_sums import HEAT, SUMS, Heat, TopicSums, heat_read, own_heat, own_sums, sums_read
from api.services import Services
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.stores.problems import Problem
from mirror.errors import AnalyticsError, Busy, NotFound, Refused, Unreachable
from mirror.instance.loads.assessments import Assessment, usable_of
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.plan import Plan
from monitor.movement.summary import FleetMovement, Movement
from monitor.records.record import IncidentRecord

router = APIRouter(prefix="/v1", tags=["status"])


class OpenIncidentAnswer(AnswerModel):
    """Latest open incident of a datastream."""

    id: str
    opened_ms: int
    cause: str
    """Cause that explains most of the breached time of the incident; empty if no cause was diagnosed."""
    is_late: bool
    """True if an objective is missed now or, for a recovered incident, was missed."""
    closing_ms: int | None
    """Time at which a recovered incident will close unless the problem returns; null if it has not
    recovered."""


class LatencyAnswer(AnswerModel):
    """Average latency of a batch in the last seconds, with the time spent in each stage, in ms."""

    source: float
    """Time that the batch waits at the source until it is fetched."""
    fetch: float
    """Time in transfer from the source."""
    queue: float
    """Time in the worker's queue."""
    produce: float
    """Time from sending the batch until the destination acknowledges it."""


class DatastreamGlance(AnswerModel):
    """Overview of one datastream.

    Numbers of tasks apply to the whole group of the datastream.
    """

    name: str
    group: str
    """Group of datastreams that share tasks."""
    owner: str
    status: str
    """Status of the definition; DAMAGED: the definition cannot be read."""
    source: str
    destination: str
    problem: str
    """Reason why the datastream is excluded from planning, or a warning; empty if there is no problem."""
    is_set_aside: bool
    halt: str
    """Reason given for pausing or stopping the whole datastream; empty if the datastream is not paused or
    stopped, or if no reason was given."""
    objective_ms: int | None
    """Strictest latency objective; null if there is none."""
    percentile: float | None
    budget_left: float | None
    """Smallest remaining fraction of an error budget, from the latest incident of the datastream."""
    budget_as_of_ms: int | None
    """Time of `budget_left` (epoch ms)."""
    tasks: int
    required_tasks: int | None
    """Number of tasks required by capacity in the latest planning run, at `planned_ms`."""
    hot: int | None
    """Number of partitions whose load alone is at least half of the usable capacity of a task, by current
    loads; null if all loads are unknown or the leader did not respond."""
    offending: int | None
    """Number of partitions whose load alone exceeds the usable capacity of a task, in the latest planning
    run."""
    unplaced: int | None
    """Number of partitions without a task."""
    overloaded: int | None
    """Number of tasks whose load exceeds the usable capacity."""
    planned_ms: int | None
    """Time of the latest planning run (epoch ms); null: never planned."""
    fullest_bytes_per_second: float | None
    """Load of the fullest task in the latest planning run."""
    usable_bytes_per_second: int | None
    """Usable capacity of one task in the latest planning run; null if placement is not by load."""
    partitions: int
    """Number of partitions, copied or not, reported by the instances that responded."""
    not_copied: int
    """Number of partitions that are not copied, among `partitions`."""
    bytes_per_second: float | None
    """Current copy rate; null if the rate of a lane is unknown."""
    lag_records: int | None
    """Number of waiting records; null if the number is unknown for a partition."""
    oldest_ms: int | None
    """Age of the oldest waiting record; null if the age is unknown for a partition."""
    at_least_ms: int | None
    """Age of the oldest waiting record among partitions with a known age."""
    counted_ms: int | None
    """Age of the oldest waiting record that counts against objectives. Partitions are ignored if their oldest
    waiting record was produced before the creation or restart of the datastream, or during a pause."""
    latency: LatencyAnswer | None
    """Latency by stage; null if nothing is being copied."""
    states: dict[str, int]
    """Number of partitions that are not OK, by state."""
    worst: str
    """Reason for the state of the partition that has been out of the state OK for longest; empty if all are
    OK."""
    loses_data_in_seconds: float | None
    """Time until the source deletes an uncopied record, in seconds; null if no loss is predicted within four
    hours."""
    incident: OpenIncidentAnswer | None


class OverviewAnswer(AnswerModel):
    """Overview of all datastreams, sorted by name, and the instances that did not respond."""

    instances: int
    silent_instances: list[str]
    """Instances that did not respond. The sums do not include the lanes of instances that did not respond."""
    is_complete: bool
    """True if all instances, including a leader, responded."""
    knows_incidents: bool
    """True if the incidents of the monitor could be read."""
    epoch: int
    """Epoch of the current plan."""
    datastreams: list[DatastreamGlance]


_NO_MOVEMENT: Final = Movement()


@dataclass(frozen=True)
class OverviewData:
    """Data from which the response of one overview is computed.

    `is_complete`: all instances have reported their sums. `usable`: configured usable capacity of a task in
    bytes per second, for groups whose plans do not state it; None if placement is not by load. `heat`: number
    of hot partitions by group and topic; None if the leader did not respond.
    """

    definitions: Definitions
    problems: Mapping[DatastreamName, Problem]
    plan: Plan
    assessments: Mapping[GroupName, Assessment]
    sums: Sequence[TopicSums]
    movements: FleetMovement
    incidents: Sequence[IncidentRecord]
    is_complete: bool
    usable: int | None = None
    heat: Heat | None = None


def glances(seen: OverviewData, only: str | None = None) -> list[DatastreamGlance]:
    """Return the overview of each datastream, sorted by name, including damaged ones. `only`: name of the
    only datastream to return."""
    sums: dict[GroupName, list[TopicSums]] = defaultdict(list)
    for task in seen.sums:
        sums[task.group].append(task)
    incidents: dict[str, list[IncidentRecord]] = defaultdict(list)
    for incident in seen.incidents:
        incidents[incident.datastream].append(incident)
    damaged = {damaged.name for damaged in seen.definitions.damaged}
    found = []
    for each in seen.definitions.datastreams:
        if only not in (None, each.name):
            continue
        status = DAMAGED if each.name in damaged else each.status.value
        total = _total(each, seen.plan, sums.get(each.group, ()))
        found.append(_glance(each, status, total, seen, incidents.get(each.name, ())))
    unread = [
        damaged
        for damaged in seen.definitions.damaged
        if damaged.last is None and only in (None, damaged.name)
    ]
    found += [_unreadable(damaged.name, damaged.problem) for damaged in unread]
    return sorted(found, key=lambda row: row.name)


def _total(datastream: Datastream, plan: Plan, topics: Iterable[TopicSums]) -> TopicSums:
    """Return the sums over the topics that a datastream copies."""
    total = TopicSums(datastream.group, "")
    for topic in topics:
        if datastream.selection.matches(topic.topic) and not plan.excludes(datastream.name, topic.topic):
            total.add(topic)
    return total


def _glance(
    datastream: Datastream,
    status: str,
    total: TopicSums,
    seen: OverviewData,
    incidents: Sequence[IncidentRecord],
) -> DatastreamGlance:
    name, group = datastream.name, datastream.group
    problem, assessment = seen.problems.get(name), seen.assessments.get(group)
    movement = moving.movement if (moving := seen.movements.datastreams.get(name)) else _NO_MOVEMENT
    milliseconds, percentile = _strictest(datastream)
    is_reported = seen.is_complete and total.lanes + total.idle > 0
    is_judged = is_reported and not total.unjudged
    budget, as_of_ms = _budget_left(incidents)
    return DatastreamGlance(
        name=name,
        group=group,
        owner=datastream.owner,
        status=status,
        source=datastream.source,
        destination=datastream.destination,
        problem=problem.reason if problem is not None else "",
        is_set_aside=status == DAMAGED or (problem is not None and problem.sets_aside),
        halt=datastream.halt.reason if datastream.halt is not None else "",
        objective_ms=milliseconds,
        percentile=percentile,
        budget_left=budget,
        budget_as_of_ms=as_of_ms,
        tasks=len(seen.plan.of_group(group)),
        required_tasks=assessment.required_tasks if assessment else None,
        hot=_hot(datastream, seen),
        offending=assessment.offending if assessment else None,
        unplaced=assessment.unplaced if assessment else None,
        overloaded=assessment.overloaded if assessment else None,
        planned_ms=assessment.planned_ms if assessment else None,
        fullest_bytes_per_second=assessment.max_load if assessment else None,
        usable_bytes_per_second=usable_of(assessment, seen.usable),
        partitions=total.lanes + total.idle,
        not_copied=total.idle,
        bytes_per_second=None if total.unmeasured or not is_reported else total.bytes_per_second,
        lag_records=total.lag_records if is_judged else None,
        oldest_ms=(total.oldest_ms or 0) if is_judged else None,
        at_least_ms=total.oldest_ms,
        counted_ms=total.counted_ms,
        latency=_latency(total),
        states={state.state.value: state.partitions for state in movement.states},
        worst=_worst(movement),
        loses_data_in_seconds=movement.loss.seconds if movement.loss and movement.loss.is_near else None,
        incident=_open_incident(incidents),
    )


def _hot(datastream: Datastream, seen: OverviewData) -> int | None:
    topics = (seen.heat or {}).get(datastream.group)
    if topics is None:
        return None
    mine = datastream.selection.matches
    excludes = seen.plan.excludes
    return sum(
        number for topic, number in topics.items() if mine(topic) and not excludes(datastream.name, topic)
    )


def _latency(total: TopicSums) -> LatencyAnswer | None:
    if not total.batches:
        return None
    source, fetch, queue, produce = (round(stage_ms / total.batches, 1) for stage_ms in total.stage_ms)
    return LatencyAnswer(source=source, fetch=fetch, queue=queue, produce=produce)


def _strictest(datastream: Datastream) -> tuple[int, float] | tuple[None, None]:
    """Return milliseconds and percentile of the objective with the shortest time; (None, None) without
    objectives."""
    found = [(objective.milliseconds, objective.percentile) for objective in datastream.objectives]
    if datastream.objective is not None:
        found.append((datastream.objective.milliseconds, datastream.objective.percentile))
    return min(found, default=(None, None))


def _worst(movement: Movement) -> str:
    counts = sorted(movement.states, key=lambda state: (state.since_ms is None, state.since_ms or 0))
    return f"{counts[0].worst}: {counts[0].reason or counts[0].state}" if counts else ""


def _open_incident(incidents: Sequence[IncidentRecord]) -> OpenIncidentAnswer | None:
    """Return the latest incident that is still open; None if all are closed. `incidents`: latest first."""
    for incident in incidents:
        if incident.is_open:
            return OpenIncidentAnswer(
                id=incident.id,
                opened_ms=incident.opened_ms,
                cause=incident.cause,
                is_late=incident.is_late,
                closing_ms=incident.closing_ms,
            )
    return None


def _budget_left(incidents: Sequence[IncidentRecord]) -> tuple[float | None, int | None]:
    """Return the smallest remaining error budget and the time of its evaluation, from the latest incident
    with a known budget; otherwise (None, None)."""
    for incident in incidents:
        left = [cost.now for cost in incident.costs if cost.now is not None]
        if left:
            return min(left), incident.judged_ms
    return None, None


def _unreadable(name: DatastreamName, problem: str) -> DatastreamGlance:
    """Return the overview of a damaged definition if this instance has never read a valid version."""
    empty = dict.fromkeys(DatastreamGlance.model_fields)
    known = {
        "name": name,
        "group": name,
        "status": DAMAGED,
        "problem": problem,
        "is_set_aside": True,
        "tasks": 0,
        "partitions": 0,
        "not_copied": 0,
        "states": {},
    }
    texts = dict.fromkeys(("owner", "source", "destination", "halt", "worst"), "")
    return DatastreamGlance.model_validate({**empty, **texts, **known})


@router.get("/overview", response_model=OverviewAnswer, responses=problems(404, 409))
async def overview(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    request: Request,
    response: Response,
    datastream: Annotated[str | None, Query(description="only this datastream")] = None,
) -> Response:
    """Return the state and throughput of every datastream.

    The response contains status, objective, age of the oldest waiting record, throughput, tasks and
    problems, as sums over partitions. A request queries each instance twice, and the leader three times.
    """
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    definitions = await run_in_threadpool(reads.definitions)
    replies, moving, heat = await asyncio.gather(
        AllInstances(services, fleet, live).ask(FleetQuery(SUMS), lambda: own_sums(services), sums_read),
        movements(services, fleet, live, plan, definitions.datastreams),
        ask_leader(services, fleet, live, FleetQuery(HEAT), lambda: own_heat(services), heat_read),
    )
    silent = [name for name, reply in replies.items() if reply.value is None]
    incidents = await run_in_threadpool(_incidents, services)

    def answer() -> bytes:
        seen = OverviewData(
            definitions,
            reads.problems(),
            plan,
            reads.assessments(),
            [item for reply in replies.values() for item in reply.value or ()],
            moving,
            incidents or (),
            not silent,
            services.usable_bytes_per_second,
            heat.value,
        )
        found = glances(seen, datastream)
        if datastream is not None and not found:
            raise NotFound(f"unknown datastream {shown(datastream)}", advice="see the list in /v1/overview")
        whole = OverviewAnswer(
            instances=len(replies),
            silent_instances=silent,
            is_complete=moving.is_complete and not silent,
            knows_incidents=incidents is not None,
            epoch=plan.epoch,
            datastreams=found,
        )
        return bytes(LegibleJson(whole.model_dump(mode="json")).body)

    return _sent(await run_in_threadpool(answer), request, response)


def _sent(body: bytes, request: Request, response: Response) -> Response:
    """Return the overview as a response, compressed if the client accepts compression. The overview is most
    of the data of the first web page. `response`: its headers are added."""
    headers = {**response.headers, "Vary": "Accept-Encoding"}
    if accepts_gzip(request):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _incidents(services: Services) -> tuple[IncidentRecord, ...] | None:
    """Return the incidents; None if they cannot be read now, so that the overview is still available."""
    try:
        return tuple(services.incidents())
    except (Unreachable, Refused, Busy, AnalyticsError):
        return None
