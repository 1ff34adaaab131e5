"""/v1/topics: facts about the use of topics. /v1/retirements: retirement of unused topics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field

from api.fleet.dependencies import ServicesDep, SlowCallsDep
from api.http.problems import AnswerModel, RecordAnswer, StrictModel, problems
from api.http.slow_calls import large_response
from mirror.coordination.topic_retirement import Retirement
from mirror.coordination.topic_use import KeepReason, TopicEvidence
from mirror.jobs.retirement.steps import RetirementOutcome, RetirementRequest
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef

router = APIRouter(prefix="/v1", tags=["status"], responses=problems(400, 409))
_MOST_DAYS: Final = 3_650
_DAYS: Final = 60
_WAIT_DAYS: Final = 7


class TopicReaderAnswer(AnswerModel):
    """A consumer group that reads a topic."""

    group: str
    has_members: bool
    has_offsets: bool
    """True if the group has committed offsets for the topic."""


class TopicSelectorAnswer(AnswerModel):
    """A datastream that reads or writes a topic."""

    datastream: str
    owner: str
    is_only: bool
    """True if the expression of the datastream matches no other topic."""
    is_halted: bool
    """True if the datastream is paused or stopped."""


class TopicEvidenceAnswer(AnswerModel):
    """Facts about the use of a topic; times in epoch ms."""

    cluster: str
    topic: str
    is_unused: bool
    reasons: list[KeepReason]
    """Reasons to keep the topic."""
    partitions: int
    records: int | None
    """Upper bound of the number of records; null if unknown."""
    bytes: int | None
    """Size of all replicas; null if unknown."""
    first_seen_ms: int | None
    watched_since_ms: int | None
    """Time (epoch ms) since which the topic has been checked without a gap."""
    no_inflow_since_ms: int | None
    last_read_ms: int | None
    """Time (epoch ms) of the last check that found a reader of the topic; null if no check found one."""
    readers: list[TopicReaderAnswer]
    """Consumer groups, without the groups of the mirror. Consumers that commit no offsets cannot be
    detected."""
    selected_by: list[TopicSelectorAnswer]
    unknown_groups: list[str]
    """Groups of the cluster whose topics are unknown. Any group of this list may read the topic."""

    @classmethod
    def of(cls, found: TopicEvidence) -> TopicEvidenceAnswer:
        """Return the facts about the use of a topic as a response."""
        observation, seen = found.observation, found.history
        return cls(
            cluster=found.cluster,
            topic=found.topic,
            is_unused=found.is_unused,
            reasons=list(found.reasons),
            partitions=observation.partitions,
            records=observation.records,
            bytes=observation.bytes,
            first_seen_ms=seen.first_ms if seen else None,
            watched_since_ms=seen.watched_ms if seen else None,
            no_inflow_since_ms=seen.quiet_ms if seen else None,
            last_read_ms=(seen.read_ms or None) if seen else None,
            readers=[TopicReaderAnswer(**reader._asdict()) for reader in observation.readers],
            selected_by=[TopicSelectorAnswer(**selector._asdict()) for selector in found.selectors],
            unknown_groups=list(found.unknown_groups),
        )


class TopicsAnswer(AnswerModel):
    """Facts about the topics of a cluster."""

    cluster: str
    days: int
    topics: list[TopicEvidenceAnswer]
    kept: int
    """Number of topics that have a reason to be kept."""


@dataclass(frozen=True)
class RetirementAnswer(Retirement, RecordAnswer):
    """Retirement of a topic in progress; times in epoch ms."""

    DESCRIPTIONS: ClassVar = {
        "topic_id": "Id of the sealed topic; empty on clusters without topic ids.",
        "ends": "Fingerprint of the end offsets at the seal.",
        "phase": "sealing, sealed, deleting or restoring.",
        "denial": "State of the ACL that denies writes.",
        "selected": "Datastreams whose expression matches only this topic.",
        "paused": "Selected datastreams that the retirement pauses.",
        "owners": "Owners of these datastreams.",
        "days": "Minimum age of the topic, and minimum time without use, in days.",
        "wait_ms": "Time between the seal and the deletion.",
        "due_ms": "End of the wait (epoch ms); 0 before the seal.",
        "emptied": "Number of partitions whose records are deleted.",
        "problem": "Reason why the last attempt stopped.",
    }


class RetirementStepAnswer(AnswerModel):
    """State of a retirement after one call of its endpoint."""

    retirement: RetirementAnswer
    is_over: bool
    """True once the topic is deleted or restored."""
    is_dry_run: bool
    evidence: TopicEvidenceAnswer | None
    """Evidence that this call has collected; null if the step needs no evidence."""

    @classmethod
    def of(cls, found: RetirementOutcome, *, is_dry_run: bool = False) -> RetirementStepAnswer:
        """Return the result of a retirement step as a response."""
        evidence = None if found.evidence is None else TopicEvidenceAnswer.of(found.evidence)
        return cls(
            retirement=RetirementAnswer.of(found.retirement),
            is_over=found.is_over,
            is_dry_run=is_dry_run,
            evidence=evidence,
        )


class TopicBody(StrictModel):
    """A topic of a cluster."""

    cluster: str
    """Alias or address, as in definitions of datastreams."""
    topic: str
    reason: str = ""
    requested_by: str = "REST"


class RetirementBody(TopicBody):
    """Request to begin or continue a retirement."""

    execute: bool = False
    """False: only check."""
    days: Annotated[int, Field(ge=0, le=_MOST_DAYS)] = _DAYS
    """Minimum age of the topic, and minimum time without use, in days. Used by the call that begins the
    retirement."""
    wait_seconds: Annotated[int, Field(ge=0, le=_MOST_DAYS * 86_400)] = _WAIT_DAYS * 86_400
    """Time between the seal and the deletion. Used by the call that begins the retirement."""
    denies_writes: bool = True
    """True: create an ACL that denies writes to the topic, if the cluster has an authorizer."""


@router.get("/topics", response_model=TopicsAnswer)
async def topics(
    services: ServicesDep,
    calls: SlowCallsDep,
    response: Response,
    cluster: Annotated[str, Query(description="alias or address of the cluster")],
    days: Annotated[
        int, Query(ge=0, le=_MOST_DAYS, description="minimum age and time without use, in days")
    ] = _DAYS,
    unused: Annotated[bool, Query(description="omit topics with a reason to keep them")] = False,
) -> Response:
    """Return facts about the use of each topic of a cluster. Requires rights on all datastreams, because the
    response lists all consumer groups."""
    ref = _cluster(cluster)

    def read() -> Response:
        found = services.retirements.unused(services.control, ref, days)
        shown = [TopicEvidenceAnswer.of(topic) for topic in found if topic.is_unused or not unused]
        kept = sum(not topic.is_unused for topic in found)
        return large_response(TopicsAnswer(cluster=cluster, days=days, topics=shown, kept=kept), response)

    return await calls.run(read)


@router.get("/retirements")
def retirements(services: ServicesDep) -> list[RetirementAnswer]:
    """Return the retirements of topics in progress."""
    return [RetirementAnswer.of(retirement) for retirement in services.retirements.all()]


@router.post("/retirements", responses=problems(404))
async def retire(body: RetirementBody, services: ServicesDep, calls: SlowCallsDep) -> RetirementStepAnswer:
    """Perform the next step of a retirement.

    The first step seals an unused topic. After the waiting time, a step checks the topic again. The next
    steps each delete the records of some partitions, and the last step deletes the topic. Repeat the call
    until `is_over` is true, also after a crash.
    """
    request = RetirementRequest(
        _cluster(body.cluster),
        body.topic,
        body.days,
        body.wait_seconds * 1_000,
        body.denies_writes,
        body.requested_by,
        body.reason,
    )
    is_dry = not body.execute
    act = partial(services.retirements.retire, services.control, request, dry_run=is_dry)
    return RetirementStepAnswer.of(await calls.run(act), is_dry_run=is_dry)


@router.post("/retirements/restore", responses=problems(404))
async def restore(body: TopicBody, services: ServicesDep, calls: SlowCallsDep) -> RetirementStepAnswer:
    """End a retirement: allow writes again, and resume its datastreams. Deleted records remain deleted."""
    act = partial(
        services.retirements.restore,
        services.control,
        _cluster(body.cluster),
        body.topic,
        body.requested_by,
        body.reason,
    )
    return RetirementStepAnswer.of(await calls.run(act))


def _cluster(name: str) -> ClusterRef:
    return ClusterRef(bounds.line("the cluster", name, bounds.LONGEST_REASON))
