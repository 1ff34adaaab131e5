"""What is asked of single partitions on /v1."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mirror.model.datastreams.datastream import Halt, PartitionPause


class _PartitionsModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class PausesBody(_PartitionsModel):
    """Partitions to pause or resume."""

    partitions: dict[str, str]
    """By topic: numbers such as `0,13,2`, or `*` for the whole topic."""
    reason: str = ""
    """Kept with a pause, and shown."""
    requested_by: str = ""
    """Who asks; kept with a pause, and shown."""


class HaltBody(_PartitionsModel):
    """Why a datastream is paused, stopped or resumed."""

    reason: str = ""
    """Kept with a pause or a stop, and shown."""
    requested_by: str = ""
    """Who asks; kept with a pause or a stop, and shown."""


class HaltAnswer(_PartitionsModel):
    """Why a datastream is paused or stopped."""

    reason: str
    since_ms: int
    requested_by: str

    @classmethod
    def from_halt(cls, halt: Halt) -> HaltAnswer:
        """The JSON form."""
        return cls(reason=halt.reason, since_ms=halt.since_ms, requested_by=halt.requested_by)


class PauseAnswer(_PartitionsModel):
    """Partitions of one topic that are paused."""

    partitions: list[int] | None
    """Their numbers; null: the whole topic."""
    reason: str
    since_ms: int
    requested_by: str

    @classmethod
    def from_pause(cls, pause: PartitionPause) -> PauseAnswer:
        """The JSON form."""
        numbers = None if pause.numbers is None else sorted(pause.numbers)
        return cls(
            partitions=numbers, reason=pause.reason, since_ms=pause.since_ms, requested_by=pause.requested_by
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
