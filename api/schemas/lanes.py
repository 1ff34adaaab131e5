"""Lanes on /v1, and partitions that should have one."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from api.schemas.status import InstanceStateAnswer
from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.metrics import SHOWN_OF_LANES


class LaneAnswer(BaseModel):
    """One lane of an instance; or, where it leads, a partition that nobody copies. A number that is not
    known is null."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    instance: str = ""
    """Who says so."""
    datastream: str
    """Its group."""
    partition: str
    task: str | None
    """Null: none has it."""
    worker: int | None
    """Number of the worker process; -1: none may or can copy it now; null: nobody copies it."""
    phase: str
    """waiting, starting, copying, paused, stopping; of partitions that nobody copies: paused, unplaced,
    left out."""
    by: Literal["person", "itself"] | None = None
    """Who paused it."""
    reason: str
    """Why it does not copy; or, while it does, which quota holds it back."""
    requested_by: str | None = None
    """The person that paused it, as far as that was given."""
    since_ms: int | None = None
    """When a person paused it (epoch ms)."""
    age_ms: int | None = None
    """How long ago that was."""
    lag_records: int | None
    """Records at the source that are not at the destination."""
    lag_ms: int | None
    """Age of the oldest of them."""
    retained_records: int | None = None
    """Of a partition that nobody copies: records that retention may still delete at the source before it
    reaches one that was not copied."""
    lost_records: int | None = None
    """Of a partition that nobody copies: records that retention has deleted before they were copied."""
    bytes_per_second: float | None
    per_second: dict[str, float] | None = None
    """Rates by the names of mirrorMetrics' columns."""

    @classmethod
    def from_lane(cls, key: LaneKey, state: LaneStatus) -> LaneAnswer:
        """A lane of this instance."""
        rate = state.rate
        lag_records, lag_ms = state.lag
        return cls(
            datastream=key.group,
            partition=str(key.partition),
            task=state.spec.task,
            worker=state.worker,
            phase=state.phase,
            by="itself" if state.phase is LanePhase.PAUSED else None,
            reason=state.reason or state.held_back,
            lag_records=lag_records,
            lag_ms=lag_ms,
            bytes_per_second=rate.bytes_per_second if rate else None,
            per_second=dict(zip(SHOWN_OF_LANES, rate.shown, strict=False)) if rate else None,
        )

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane, now_ms: int) -> LaneAnswer:
        """A partition that nobody copies."""
        what = lane.what
        return cls(
            datastream=what.group,
            partition=str(what.partition),
            task=None,
            worker=None,
            phase=what.state,
            by="person" if what.state is UncopiedState.PAUSED else None,
            reason=what.reason,
            requested_by=what.requested_by or None,
            since_ms=what.since_ms,
            age_ms=max(now_ms - what.since_ms, 0) if what.since_ms is not None else None,
            lag_records=lane.lag_records,
            lag_ms=None,
            retained_records=lane.retained_records,
            lost_records=lane.lost_records,
            bytes_per_second=None,
        )


class LanesAnswer(BaseModel):
    """Lanes of instances, and which of these have answered."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    instances: list[InstanceStateAnswer]
    """All that are here. Of those that have not answered no lane is listed; what they copy is in /v1/plan."""
    lanes: list[LaneAnswer]
