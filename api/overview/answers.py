"""Assembly of the overview: definitions, sums of lanes, last planning, incidents. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api.loads.heat import Heat
from api.overview.schemas import DatastreamGlance, LatencyAnswer, OpenIncidentAnswer
from api.overview.sums import TopicSums
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.stores.problems import Problem
from mirror.instance.loads.assessments import Assessment, usable_of
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import OWNER
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.plan import Plan
from monitor.movement.summary import FleetMovement, Movement
from monitor.records.record import IncidentRecord

_DAMAGED: Final = "DAMAGED"
_NO_MOVEMENT: Final = Movement()


@dataclass(frozen=True)
class OverviewData:
    """Data of one overview. `is_complete`: all instances reported their sums. `usable`: usable capacity of a
    task in bytes per second unless the planning recorded it; None: placement is not by load. `heat`: hot
    partitions by group and topic; None: the leader did not respond."""

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
    """Return the datastreams by name, including damaged ones. `only`: restrict to this name."""
    sums: dict[GroupName, list[TopicSums]] = defaultdict(list)
    for one in seen.sums:
        sums[one.group].append(one)
    incidents: dict[str, list[IncidentRecord]] = defaultdict(list)
    for incident in seen.incidents:
        incidents[incident.datastream].append(incident)
    damaged = {one.name for one in seen.definitions.damaged}
    found = []
    for each in seen.definitions.datastreams:
        if only not in (None, each.name):
            continue
        status = _DAMAGED if each.name in damaged else each.status.value
        total = _total(each, seen.plan, sums.get(each.group, ()))
        found.append(_glance(each, status, total, seen, incidents.get(each.name, ())))
    unread = [one for one in seen.definitions.damaged if one.last is None and only in (None, one.name)]
    found += [_unreadable(one.name, one.problem) for one in unread]
    return sorted(found, key=lambda one: one.name)


def _total(datastream: Datastream, plan: Plan, topics: Iterable[TopicSums]) -> TopicSums:
    """Return the sum over the topics of its group that belong to the datastream."""
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
    moving = seen.movements.datastreams.get(name)
    movement = moving.movement if moving is not None else _NO_MOVEMENT
    milliseconds, percentile = _strictest(datastream)
    is_judged = seen.is_complete and not total.unjudged
    budget, as_of_ms = _budget_left(incidents)
    return DatastreamGlance(
        name=name,
        group=group,
        owner=datastream.metadata.get(OWNER, ""),
        status=status,
        source=datastream.source,
        destination=datastream.destination,
        problem=problem.reason if problem is not None else "",
        is_set_aside=status == _DAMAGED or (problem is not None and problem.sets_aside),
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
        bytes_per_second=None if total.unmeasured or not seen.is_complete else total.bytes_per_second,
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
    """Return milliseconds and percentile of the objective with the shortest time."""
    found = [(objective.milliseconds, objective.percentile) for objective in datastream.objectives]
    if datastream.objective is not None:
        found.append((datastream.objective.milliseconds, datastream.objective.percentile))
    return min(found, default=(None, None))


def _worst(movement: Movement) -> str:
    counts = sorted(movement.states, key=lambda state: (state.since_ms is None, state.since_ms or 0))
    return f"{counts[0].worst}: {counts[0].reason or counts[0].state}" if counts else ""


def _open_incident(incidents: Sequence[IncidentRecord]) -> OpenIncidentAnswer | None:
    """Return the latest open incident. `incidents`: latest first."""
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
    """Return the smallest remaining budget and its time, from the latest incident that has one."""
    for incident in incidents:
        left = [cost.now for cost in incident.costs if cost.now is not None]
        if left:
            return min(left), incident.judged_ms
    return None, None


def _unreadable(name: DatastreamName, problem: str) -> DatastreamGlance:
    """Return the overview of a definition that this instance could never read."""
    empty = dict.fromkeys(DatastreamGlance.model_fields)
    known = {
        "name": name,
        "group": name,
        "status": _DAMAGED,
        "problem": problem,
        "is_set_aside": True,
        "tasks": 0,
        "partitions": 0,
        "not_copied": 0,
        "states": {},
    }
    texts = dict.fromkeys(("owner", "source", "destination", "halt", "worst"), "")
    return DatastreamGlance.model_validate({**empty, **texts, **known})
