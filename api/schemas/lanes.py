"""Lanes on /v1, what their copying does, and partitions that should have one."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from api.movement.verdicts import backlog_origin, backlog_since_ms, judged, judged_uncopied
from api.schemas.status import InstanceStateAnswer
from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.datastreams.lanes import LaneKey, QuotaHold, Unanswered
from mirror.model.metrics import SHOWN_OF_LANES
from monitor.movement.states import Judgement


class MovementAnswer(BaseModel):
    """What the copying of a partition does, judged by how its position moves. A number that is not known is
    null."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    state: str
    """OK, CATCHING_UP, WARN, STALL, STOP, REWIND, PAUSED_BY_USER, PAUSED_BY_ITSELF, THROTTLED, SOURCE_AWAY,
    DESTINATION_AWAY, TRUNCATED, RECREATED, WAITING_FOR_TRANSACTION."""
    reason: str
    since_ms: int | None
    """Since when it is so (epoch ms)."""
    eta_seconds: float | None
    """Until nothing waits any more, if it continues like that."""
    seconds_to_loss: float | None
    """Until the source deletes the first record that is not at the destination, if that is not copied before;
    by retention in time and size, and by how the start of the source's log moves."""
    loses_data: bool
    """Whether records will be deleted before they are copied, as things stand."""
    hidden_ms: int | None = None
    """Age of the first record that an open transaction at the source hides, where nothing else waits."""

    @classmethod
    def from_lane(cls, lane: LaneStatus, now: float, now_ms: int) -> MovementAnswer | None:
        """A lane of this instance, at `now` in monotonic seconds; None while nothing is known of it."""
        found = judged(lane, now)
        since_ms = None if found.since is None else int(now_ms - (now - found.since) * 1000)
        return cls._from_judgement(found, since_ms)

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane, now: float) -> MovementAnswer | None:
        """A partition that nobody copies."""
        return cls._from_judgement(judged_uncopied(lane, now), lane.what.since_ms)

    @classmethod
    def _from_judgement(cls, found: Judgement, since_ms: int | None) -> MovementAnswer | None:
        if found.state is None:
            return None
        return cls(
            state=found.state.value,
            reason=found.reason,
            since_ms=since_ms,
            eta_seconds=_rounded(found.eta_seconds),
            seconds_to_loss=_rounded(found.seconds_to_loss),
            loses_data=found.loses_data,
            hidden_ms=found.hidden_ms,
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


class HoldAnswer(BaseModel):
    """A quota that holds a lane back."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    owner: str
    """task, datastream, source brokers, destination brokers, partitions in danger (to which it gives way)."""
    share: float
    """The part of the time in which it does."""
    broker: int | None
    """Which broker throttles; null: it is no broker's quota."""


class UnansweredAnswer(BaseModel):
    """For how long requests to clusters have waited for their answers, in seconds; null: the answer is not
    overdue by a second, or nothing was asked."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    fetch_seconds: float | None
    """Of the source, beyond the time for which it was asked to wait for records."""
    produce_seconds: float | None
    """Of the destination, to the oldest batch of the lane, or to what it asks before its first one."""


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
    position: int | None = None
    """Source offset from which on it copies next: everything below is at the destination."""
    source_end: int | None = None
    """End offset of the source."""
    retained_records: int | None = None
    """Of a partition that nobody copies: records that retention may still delete at the source before it
    reaches one that was not copied."""
    lost_records: int | None = None
    """Of a partition that nobody copies: records that retention has deleted before they were copied."""
    bytes_per_second: float | None
    per_second: dict[str, float] | None = None
    """Rates by the names of mirrorMetrics' columns."""
    worker_cpu: float | None = None
    """Cores that its worker process was busy with, for all of its lanes."""
    worker_waited: float | None = None
    """The part of the time in which that process could have copied and had to wait for a core."""
    unanswered: UnansweredAnswer | None = None
    """What it waited for at the end of the last interval; null: for nothing."""
    held_back: HoldAnswer | None = None
    """Which quota holds it back while it copies; null: none does."""
    movement: MovementAnswer | None = None
    """What its copying does; null while nothing is known of that."""
    backlog: str | None = None
    """What has left the backlog of a lane that has been behind since it began: creation, pause (by a person),
    outage, worker (its process was lost), restart (of an instance, or a move); null where it has none or was
    in time."""
    backlog_since_ms: int | None = None
    """When the worker process was lost, or the lane began to copy after anything else (epoch ms)."""

    @classmethod
    def from_lane(cls, key: LaneKey, state: LaneStatus, now: float, now_ms: int) -> LaneAnswer:
        """A lane of this instance, at `now` in monotonic seconds."""
        rate = state.rate
        lag_records, lag_ms = state.lag
        position, source_end = state.ends
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
            position=position,
            source_end=source_end,
            bytes_per_second=rate.bytes_per_second if rate else None,
            per_second=dict(zip(SHOWN_OF_LANES, rate.shown, strict=False)) if rate else None,
            worker_cpu=rate.core.busy if rate else None,
            worker_waited=rate.core.waited if rate else None,
            unanswered=_unanswered(state.track.unanswered),
            held_back=_hold(state.hold) if state.held_back else None,
            movement=MovementAnswer.from_lane(state, now, now_ms),
            backlog=backlog_origin(state, now, now_ms),
            backlog_since_ms=backlog_since_ms(state, now, now_ms),
        )

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane, now: float, now_ms: int) -> LaneAnswer:
        """A partition that nobody copies, at `now` in monotonic seconds."""
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
            lag_ms=lane.lag_ms,
            retained_records=lane.retained_records,
            lost_records=lane.lost_records,
            bytes_per_second=None,
            movement=MovementAnswer.from_uncopied(lane, now),
        )


def _hold(hold: QuotaHold | None) -> HoldAnswer | None:
    if hold is None:
        return None
    return HoldAnswer(owner=hold.owner.value, share=round(hold.share, 3), broker=hold.broker)


def _unanswered(what: Unanswered | None) -> UnansweredAnswer | None:
    if what is None:
        return None
    return UnansweredAnswer(
        fetch_seconds=_rounded(what.fetch_seconds), produce_seconds=_rounded(what.produce_seconds)
    )


class LanesAnswer(BaseModel):
    """Lanes of instances, and which of these have answered."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    instances: list[InstanceStateAnswer]
    """All that are here. Of those that have not answered no lane is listed; what they copy is in /v1/plan."""
    lanes: list[LaneAnswer]
