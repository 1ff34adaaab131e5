"""/v1/movement: partitions of each datastream that are not OK; /v1/audits: continuous audits.

Each instance sums its partitions by topic to keep responses small; the queried instance combines these sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Final

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter

from api.fleet.all_instances import AllInstances, FleetCalls, leader_of
from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.questions import Fleet, FleetQuery
from api.http.problems import AnswerModel, RecordAnswer, by_value
from api.http.slow_calls import large_response
from api.services import Services
from mirror.audit.verdicts import Verdict
from mirror.coordination.stores.membership import LiveInstance
from mirror.jobs.audits.summary import AuditFault, TopicAudit, merged, planned_audits, through_of
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.plan import Plan
from monitor.lane_verdicts import is_idle, judged, judged_uncopied
from monitor.movement.states import MovementState
from monitor.movement.summary import (
    DatastreamStates,
    FleetMovement,
    Movement,
    PartitionMovement,
    StateCount,
    added,
    movement_of,
)

router = APIRouter(tags=["status"])


MOVEMENT: Final = "movement"


class StateCountAnswer(StateCount, RecordAnswer):
    """Number of partitions of a datastream that are in one state."""

    DESCRIPTIONS: ClassVar = {
        "worst": "Partition that has been in this state for the longest time.",
        "reason": "Reason for the state of the partition in `worst`.",
        "since_ms": "Time since which `worst` has been in this state (epoch ms); null if unknown.",
        "idle": (
            "Number of these partitions without waiting records and without traffic in the 15 minutes before."
        ),
        "without_process": (
            "Number of partitions in this state whose worker process is missing or does not respond."
        ),
        "offset": (
            "Source offset at which the partition in `worst` resumes, if it has paused itself; null: unknown."
        ),
    }

    state: Annotated[MovementState, by_value(MovementState)]


class LossAnswer(AnswerModel):
    """Partitions expected to lose records at the source before they are copied."""

    partitions: int
    worst: str
    """Partition that will lose records first."""
    seconds: float
    """Time until the first loss, in seconds."""
    eta_seconds: float | None
    """Time until the partition in `worst` has caught up, in seconds; null: the partition does not catch
    up."""
    share: float | None
    """Share of the records still retained at the source that are not copied, for the partition with the
    largest share; null: unknown."""
    is_near: bool
    """True if the loss is expected within four hours, so that an operator must act."""


class DatastreamMovement(AnswerModel):
    """Partitions of a datastream that are not OK."""

    name: str
    cluster: str
    """Source cluster."""
    destination: str
    """Destination cluster."""
    states: list[StateCountAnswer]
    loss: LossAnswer | None


class MovementsAnswer(AnswerModel):
    """All datastreams, sorted by name, including datastreams that are OK."""

    is_complete: bool
    """True if all instances responded; otherwise the worst partitions may be missing."""
    datastreams: list[DatastreamMovement]

    @classmethod
    def from_movements(cls, found: FleetMovement) -> MovementsAnswer:
        """Return the partition states of all datastreams as a response."""
        datastreams = [
            {
                "name": name,
                "cluster": states.cluster,
                "destination": states.destination,
                **_document_of(states.movement),
            }
            for name, states in found.datastreams.items()
        ]
        return cls.model_validate({"is_complete": found.is_complete, "datastreams": datastreams})


def _document_of(movement: Movement) -> dict[str, Any]:
    found = asdict(movement)
    if movement.loss is not None:
        found["loss"]["is_near"] = movement.loss.is_near
    return found


_MOST_TOPICS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TopicMovement:
    """Partition states of one topic of a group of datastreams."""

    group: GroupName
    topic: str
    movement: Movement


_TOLD: Final = TypeAdapter(list[TopicMovement])


def own_topics(services: Services) -> list[TopicMovement]:
    """Return the state of each topic on this instance: of its lanes and, on the leader, of uncopied
    partitions."""
    found: dict[tuple[GroupName, str], list[PartitionMovement]] = defaultdict(list)
    for group, partition in _partitions(services):
        found[group, partition.partition.topic].append(partition)
    topics = [TopicMovement(*key, movement_of(found[key])) for key in sorted(found)]
    return [topic for topic in topics if topic.movement.states]


def _partitions(services: Services) -> Iterator[tuple[GroupName, PartitionMovement]]:
    status, now, now_ms = services.status, services.clock.monotonic(), services.clock.now_ms()
    for lane in status.in_time.others.values():
        movement = judged(lane, now)
        if movement.state is MovementState.OK:
            continue
        since_ms = None if movement.since is None else int(now_ms - (now - movement.since) * 1000)
        is_still = is_idle(lane, movement, now)
        yield lane.spec.key.group, PartitionMovement(lane.spec.key.partition, movement, since_ms, is_still)
    for idle in status.uncopied:
        missing = idle.what
        found = judged_uncopied(idle, now)
        is_still = idle.lag_records == 0
        yield missing.group, PartitionMovement(missing.partition, found, missing.since_ms, is_still)


def topics_document(topics: list[TopicMovement]) -> Any:
    """Return the partition states of topics as JSON-ready values."""
    return _TOLD.dump_python(topics, mode="json")


def topics_read(value: Any) -> list[TopicMovement]:
    """Parse the partition states of topics that another instance reports. Raises ValueError, InvalidRequest.

    Unknown fields are ignored.
    """
    return _TOLD.validate_python(bounds.sequence("the reported topics", value, _MOST_TOPICS))


async def movements(
    services: Services,
    fleet: Fleet,
    live: Sequence[LiveInstance],
    plan: Plan,
    datastreams: Sequence[Datastream],
) -> FleetMovement:
    """Query each instance once, and return the partition states of all datastreams."""
    replies = await AllInstances(services, fleet, live).ask(
        FleetQuery(MOVEMENT), lambda: own_topics(services), topics_read
    )
    leader = leader_of(services, live)
    topics_by_instance = {name: reply.value for name, reply in replies.items() if reply.value is not None}
    is_complete = leader in topics_by_instance and len(topics_by_instance) == len(replies)
    return put_together(
        datastreams, plan, (topic for topics in topics_by_instance.values() for topic in topics), is_complete
    )


def put_together(
    datastreams: Sequence[Datastream], plan: Plan, topics: Iterable[TopicMovement], is_complete: bool
) -> FleetMovement:
    """Combine the partition states of topics from all instances into the partition states of datastreams."""
    by_group: dict[GroupName, list[TopicMovement]] = defaultdict(list)
    for topic in topics:
        by_group[topic.group].append(topic)
    found = {
        each.name: DatastreamStates(
            each.source,
            added(
                partition.movement
                for partition in by_group.get(each.group, ())
                if each.selection.matches(partition.topic) and not plan.excludes(each.name, partition.topic)
            ),
            each.destination,
        )
        for each in datastreams
    }
    return FleetMovement(found, is_complete)


class FleetMovements(FleetCalls):
    """Reads the partition states of all datastreams for callers other than REST requests."""

    def __call__(self) -> FleetMovement:
        """Return the partition states of all datastreams. Raises Unreachable, DamagedState."""
        services = self.services
        live, plan = services.live(), services.plan()
        datastreams = services.control.list().datastreams
        return self.run(lambda fleet: movements(services, fleet, live, plan, datastreams))


@router.get("/v1/movement", response_model=MovementsAnswer)
async def movement(services: ServicesDep, reads: ReadsDep, fleet: FleetDep, response: Response) -> Response:
    """Summarize the partitions of each datastream that are not OK.

    The response contains their number by state, the worst partitions, and the partitions about to lose
    records. `/v1/datastreams/{name}/lag` lists the partitions.
    """
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    datastreams = (await run_in_threadpool(reads.definitions)).datastreams
    found = await movements(services, fleet, live, plan, datastreams)
    return await run_in_threadpool(lambda: large_response(MovementsAnswer.from_movements(found), response))


AUDITS: Final = "audits"
_AUDITS: Final = TypeAdapter(list[TopicAudit])


def audits_document(audits: Sequence[TopicAudit]) -> Any:
    """Return continuous audits as JSON-ready values."""
    return _AUDITS.dump_python([*audits], mode="json")


def _audits_read(value: Any) -> Sequence[TopicAudit]:
    """Parse the audits of another instance. Raises ValueError, InvalidRequest. Ignores unknown fields."""
    return _AUDITS.validate_python(bounds.sequence("its audits", value, _MOST_TOPICS))


@dataclass(frozen=True)
class AuditFaultAnswer(AuditFault, RecordAnswer):
    """Unexplained difference between source and destination, for one partition and time window."""

    DESCRIPTIONS: ClassVar = {
        "partition": "Partition of the source topic.",
        "start_ms": "Start of the window of event time (epoch ms).",
        "verdict": "`missing`, `altered`, `foreign` or `duplicated`.",
        "records": "Number of records.",
        "source_offset": "Source offset of the first of these records; -1: not at the source.",
        "destination_offset": "Destination offset of that record; -1: not at the destination, or unknown.",
    }

    verdict: Annotated[Verdict, by_value(Verdict)]


class TopicAuditAnswer(AnswerModel):
    """Continuous audit of one topic of a datastream."""

    datastream: str
    topic: str
    partitions: int
    """Number of audited partitions."""
    complete_through_ms: int | None
    """Time (epoch ms): all records with an earlier timestamp are at the destination, except records that
    arrived at the source later than the lateness in the settings allows. Null if the time is unknown, a
    record is missing, or a partition is not audited."""
    waiting_offsets: int
    """Number of copied source offsets that are not audited yet."""
    late_offsets: int
    """Number of source offsets that are still uncopied after waiting at the source for longer than the
    lateness in the settings. Only the oldest window of event time with such offsets counts for each
    partition."""
    faults: list[AuditFaultAnswer]
    """First windows with differences, oldest first."""
    more_faults: int
    """Number of further windows with differences."""
    problem: str
    """Reason why a partition cannot be audited; empty if there is none."""


class AuditsAnswer(AnswerModel):
    """Continuous audits of the datastreams that have the option `audit`, one for each topic."""

    is_complete: bool
    """True if all instances responded; otherwise partitions may be missing."""
    complete_through_ms: int | None
    """Earliest `complete_through_ms` of all topics; null if it is unknown for a topic, or if an instance did
    not respond."""
    topics: list[TopicAuditAnswer]

    @classmethod
    def of(cls, found: Sequence[TopicAudit], *, is_complete: bool) -> AuditsAnswer:
        """Return continuous audits as a response."""
        topics = [
            TopicAuditAnswer(
                datastream=audit.datastream,
                topic=audit.topic,
                partitions=len(audit.partitions),
                complete_through_ms=audit.complete_through_ms if is_complete else None,
                waiting_offsets=audit.waiting,
                late_offsets=audit.late,
                faults=[AuditFaultAnswer.of(fault) for fault in audit.faults],
                more_faults=audit.more_faults,
                problem=audit.problem,
            )
            for audit in found
        ]
        through_ms = through_of(found) if is_complete else None
        return cls(is_complete=is_complete, complete_through_ms=through_ms, topics=topics)


async def audits_now(
    services: Services, fleet: Fleet, live: Sequence[LiveInstance]
) -> tuple[list[TopicAudit], bool]:
    """Query the audits of all instances, and return them and whether all instances responded."""
    replies = await AllInstances(services, fleet, live).ask(FleetQuery(AUDITS), services.audits, _audits_read)
    values = [reply.value for reply in replies.values()]
    return merged(item for value in values if value is not None for item in value), None not in values


class FleetAudits(FleetCalls):
    """Reads the audits of all instances for callers other than REST requests."""

    def __call__(self) -> tuple[Sequence[TopicAudit], bool]:
        """Return the continuous audits, and whether all instances responded. Raises Unreachable."""
        services = self.services
        live = services.live()
        return self.run(lambda fleet: audits_now(services, fleet, live))


@router.get("/v1/audits", response_model=AuditsAnswer)
async def audits(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    response: Response,
    datastream: Annotated[str | None, Query(description="only this datastream")] = None,
) -> Response:
    """Return until when every record has arrived at the destination, and time windows with differences."""
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    planned = planned_audits((await run_in_threadpool(reads.definitions)).datastreams, plan)
    found, is_complete = await audits_now(services, fleet, live)

    def answer() -> Response:
        wanted = [audit for audit in merged([*planned, *found]) if datastream in (None, audit.datastream)]
        return large_response(AuditsAnswer.of(wanted, is_complete=is_complete), response)

    return await run_in_threadpool(answer)
