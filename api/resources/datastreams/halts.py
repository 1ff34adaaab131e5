"""Pauses, halts and moves of partitions on /v1: request bodies and responses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from pydantic import AwareDatetime, Field

from api.http.problems import SharedFields, StrictModel
from api.resources.plan_answers import OperationAnswer
from mirror.model import bounds
from mirror.model.datastreams.change import FieldProblems
from mirror.model.datastreams.datastream import PartitionPause


class _EndingBody(StrictModel):
    until: int | Annotated[AwareDatetime, Field(strict=False)] | None = None
    """Time at which the pause expires: ISO 8601 with an offset, or epoch milliseconds. Without `until` and
    `for_seconds`, the pause lasts until resumed."""
    for_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Duration after which the pause expires, instead of `until`."""

    reason: str = ""
    """Reason, recorded and displayed with a pause or a stop."""
    requested_by: str = ""
    """Requester, recorded and displayed with a pause or a stop."""

    @property
    def cause(self) -> tuple[str, str]:
        """Reason and requester. Raises InvalidRequest if one is too long."""
        return bounds.cause(self.reason, self.requested_by)

    def until_ms(self, now_ms: int, *, is_pause: bool) -> int | None:
        """Return when the pause expires (epoch ms); None if the request does not limit it.

        Raises RefusedFields for an invalid time, and for any time if the request is not a pause.
        """
        problems = FieldProblems()
        for field in ("until", "for_seconds"):
            if not is_pause and getattr(self, field) is not None:
                problems.refuse(f"/{field}", "only a pause can expire")
        if self.until is not None and self.for_seconds is not None:
            problems.refuse("/for_seconds", "give either until or for_seconds, not both")
        problems.check()
        until_ms: float | None = None
        if self.for_seconds is not None:
            until_ms = now_ms + self.for_seconds * 1000
        elif self.until is not None:
            until_ms = self.until if isinstance(self.until, int) else self.until.timestamp() * 1000
        if until_ms is not None and not now_ms < until_ms <= bounds.LARGEST_MS:
            field = "/until" if self.for_seconds is None else "/for_seconds"
            problems.refuse(field, "a pause must expire in the future, before the year 33658")
        problems.check()
        return None if until_ms is None else int(until_ms)


class PausesBody(_EndingBody):
    """Partitions to pause or resume."""

    partitions: dict[str, str]
    """Partitions by topic: numbers such as `0,13,2`, or `*` for the whole topic."""


class HaltBody(_EndingBody):
    """Reason for pausing, stopping or resuming a datastream."""


class HaltAnswer(StrictModel):
    """Reason, time and requester of the pause, stop or deletion of a datastream."""

    reason: str
    since_ms: int
    requested_by: str
    until_ms: int | None = None
    """Time at which the pause expires (epoch ms); null: until resumed."""


class PauseAnswer(HaltAnswer, SharedFields):
    """Paused partitions of one topic."""

    partitions: list[int] | None
    """Partition numbers; null: the whole topic."""

    @classmethod
    def from_pause(cls, pause: PartitionPause) -> PauseAnswer:
        """Return the pause of a topic as a response."""
        cause = asdict(pause)
        numbers = cause.pop("numbers")
        return cls(partitions=None if numbers is None else sorted(numbers), **cause)


class MoveBody(StrictModel):
    """Partitions to move."""

    partitions: Annotated[list[str], Field(min_length=1)]
    """Partitions in the form `topic-0`."""
    instance: str
    """Name or host of the target instance."""
    requested_by: str = "REST"
    """Requester, recorded in the events."""


class MoveAnswer(StrictModel):
    """Move of partitions, queued for the leader."""

    request: str
    """Id of the request."""
    operation: OperationAnswer
    """Operation that reports the progress of the move."""
