"""What is asked of single partitions on /v1."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from api.schemas.plans import OperationAnswer
from mirror.model import bounds
from mirror.model.datastreams.change import FieldProblems
from mirror.model.datastreams.datastream import Halt, PartitionPause


class _PartitionsModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class _EndingBody(_PartitionsModel):
    until: int | Annotated[AwareDatetime, Field(strict=False)] | None = None
    """When a pause ends by itself: ISO 8601 with an offset, or epoch milliseconds. Without it, and without
    `for_seconds`, it lasts until somebody resumes."""
    for_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """After how long it ends by itself, instead of `until`."""

    def until_ms(self, now_ms: int, *, is_pause: bool) -> int | None:
        """When it ends (epoch ms); None: nobody said so. Raises RefusedFields for an end that cannot be, and
        for one of what has no end."""
        problems = FieldProblems()
        for field in ("until", "for_seconds"):
            if not is_pause and getattr(self, field) is not None:
                problems.refuse(f"/{field}", "only a pause ends by itself")
        if self.until is not None and self.for_seconds is not None:
            problems.refuse("/for_seconds", "either until or for_seconds says when a pause ends")
        problems.check()
        until_ms: float | None = None
        if self.for_seconds is not None:
            until_ms = now_ms + self.for_seconds * 1000
        elif self.until is not None:
            until_ms = self.until if isinstance(self.until, int) else self.until.timestamp() * 1000
        if until_ms is not None and not now_ms < until_ms <= bounds.LARGEST_MS:
            field = "/until" if self.for_seconds is None else "/for_seconds"
            problems.refuse(field, "a pause ends after it begins, and in this age")
        problems.check()
        return None if until_ms is None else int(until_ms)


class PausesBody(_EndingBody):
    """Partitions to pause or resume."""

    partitions: dict[str, str]
    """By topic: numbers such as `0,13,2`, or `*` for the whole topic."""
    reason: str = ""
    """Kept with a pause, and shown."""
    requested_by: str = ""
    """Who asks; kept with a pause, and shown."""


class HaltBody(_EndingBody):
    """Why a datastream is paused, stopped or resumed."""

    reason: str = ""
    """Kept with a pause or a stop, and shown."""
    requested_by: str = ""
    """Who asks; kept with a pause or a stop, and shown."""


class HaltAnswer(_PartitionsModel):
    """Why a datastream is paused, stopped or deleted, since when, and who asked."""

    reason: str
    since_ms: int
    requested_by: str
    until_ms: int | None = None
    """When the pause ends by itself (epoch ms); null: when somebody resumes."""

    @classmethod
    def from_halt(cls, halt: Halt) -> HaltAnswer:
        """The JSON form."""
        return cls(
            reason=halt.reason,
            since_ms=halt.since_ms,
            requested_by=halt.requested_by,
            until_ms=halt.until_ms,
        )


class PauseAnswer(_PartitionsModel):
    """Partitions of one topic that are paused."""

    partitions: list[int] | None
    """Their numbers; null: the whole topic."""
    reason: str
    since_ms: int
    requested_by: str
    until_ms: int | None = None
    """When the pause ends by itself (epoch ms); null: when somebody resumes them."""

    @classmethod
    def from_pause(cls, pause: PartitionPause) -> PauseAnswer:
        """The JSON form."""
        numbers = None if pause.numbers is None else sorted(pause.numbers)
        return cls(
            partitions=numbers,
            reason=pause.reason,
            since_ms=pause.since_ms,
            requested_by=pause.requested_by,
            until_ms=pause.until_ms,
        )


class MoveBody(_PartitionsModel):
    """Partitions to move."""

    partitions: Annotated[list[str], Field(min_length=1)]
    """As `topic-0`."""
    instance: str
    """Name or host of the instance that is to copy them."""
    requested_by: str = "REST"
    """For the events."""


class MoveAnswer(_PartitionsModel):
    """A move that the leader will make."""

    request: str
    """Its identity."""
    operation: OperationAnswer
    """The same as an operation."""
