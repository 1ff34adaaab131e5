"""State machine of the retirement of one topic. Pure.

    sealing ──▶ sealed ──▶ deleting ──▶ (no record: the topic is deleted)
       └───────────┴───────────┴──▶ restoring ──▶ (no record: the topic is in use again)

Each phase is stored before its actions. All actions are idempotent, so an interrupted phase is resumed by
running it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from mirror.coordination.topic_use import KeepReason, TopicEvidence
from mirror.errors import IllegalTransition
from mirror.model.identifiers import ClusterRef, DatastreamName


class RetirementPhase(StrEnum):
    """Phase of a topic's retirement."""

    SEALING = "sealing"
    SEALED = "sealed"
    DELETING = "deleting"
    RESTORING = "restoring"


class WriteDenial(StrEnum):
    """State of the ACL that denies writes to a topic.

    `WANTED`: the ACL may or may not exist yet.
    """

    WANTED = "wanted"
    MADE = "made"
    FOUND = "found"
    """The ACL existed before the retirement, so it must not be deleted."""
    NO_AUTHORIZER = "no-authorizer"
    NOT_WANTED = "not-wanted"


@dataclass(frozen=True, slots=True)
class Retirement:
    """State of the retirement of one topic. Times are in epoch ms.

    `topic_id`, `ends`: id and end offsets of the topic when it was sealed. `selected`: datastreams that
    select only this topic. `paused`: those datastreams that the retirement pauses and a restoration resumes.
    `due_ms`: end of the waiting time, 0 before the topic is sealed. `emptied`: number of partitions whose
    records are deleted. `problem`: error of the last attempt.
    """

    cluster: ClusterRef
    topic: str
    topic_id: str
    ends: str
    partitions: int
    phase: RetirementPhase
    denial: WriteDenial
    selected: tuple[DatastreamName, ...]
    paused: tuple[DatastreamName, ...]
    owners: tuple[str, ...]
    days: int
    wait_ms: int
    started_ms: int
    due_ms: int = 0
    emptied: int = 0
    requested_by: str = ""
    reason: str = ""
    problem: str = ""

    def sealed(self, denial: WriteDenial, now_ms: int) -> Retirement:
        """Return the retirement after its topic was sealed."""
        return replace(
            self, phase=RetirementPhase.SEALED, denial=denial, due_ms=now_ms + self.wait_ms, problem=""
        )

    def is_due(self, now_ms: int) -> bool:
        """Return whether the waiting time between sealing and deletion is over."""
        return self.phase is RetirementPhase.SEALED and now_ms >= self.due_ms

    def deleting(self) -> Retirement:
        """Return the retirement with its phase set to DELETING."""
        return replace(self, phase=RetirementPhase.DELETING, problem="")

    def restoring(self) -> Retirement:
        """Return the retirement with its phase set to RESTORING."""
        return replace(self, phase=RetirementPhase.RESTORING, problem="")


def objections(retirement: Retirement, evidence: TopicEvidence) -> tuple[KeepReason, ...]:
    """Return the reasons not to delete a sealed topic. Any use since the seal is a reason, whatever the
    configured limits."""
    found = dict.fromkeys(evidence.reasons)
    seen = evidence.history
    if evidence.observation.ends != retirement.ends:
        found[KeepReason.INFLOW] = None
    if evidence.observation.readers or (seen is not None and seen.read_ms > retirement.started_ms):
        found[KeepReason.READERS] = None
    if any(
        selector.datastream not in retirement.selected or not selector.is_halted
        for selector in evidence.selectors
    ):
        found[KeepReason.SELECTED] = None
    return tuple(found)


def require_unused(evidence: TopicEvidence) -> None:
    """Raise IllegalTransition with the reasons to keep the topic, unless it is unused."""
    if evidence.reasons:
        raise IllegalTransition(
            f"topic {evidence.topic} of {evidence.cluster} is in use: {', '.join(evidence.reasons)}",
            advice="headrace topics unused --all shows the evidence",
        )
