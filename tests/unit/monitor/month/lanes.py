"""Evidence of the lanes of a datastream by its problem: four partitions in two tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from monitor.causes.diagnosis import Cause
from monitor.causes.evidence import Evidence, LaneEvidence, Phases
from monitor.movement.states import MovementState


class Trouble(NamedTuple):
    """Problem that makes records late from step `first` to before `end`. `share`: remaining fraction of the
    capacity. `quota`: owner of the quota if the cause is a quota. `is_alone`: whether the hot partition has
    its own task."""

    cause: Cause
    first: int
    end: int
    share: float = 0.35
    quota: QuotaOwner | None = None
    is_alone: bool = False


class StepView(NamedTuple):
    """View of a step. `waiting`: records. `fall`: records per second by which the backlog shrank in two
    steps, 0 if it did not. `late_ms`: latency of arriving records."""

    lag_ms: int
    waiting: float
    fall: float
    late_ms: float


_AWAY: Final = {
    Cause.SOURCE_BOUND: MovementState.SOURCE_AWAY,
    Cause.DESTINATION_BOUND: MovementState.DESTINATION_AWAY,
}
_STANDING: Final = {
    Cause.OPEN_TRANSACTION: MovementState.WAITING_FOR_TRANSACTION,
    Cause.PAUSED: MovementState.PAUSED_BY_ITSELF,
}
_SPENT: Final = {
    Cause.SOURCE_BOUND: Phases(0.9, 0.05, 0.0, 0.05),
    Cause.DESTINATION_BOUND: Phases(0.1, 0.0, 0.5, 0.4),
    Cause.NETWORK: Phases(0.1, 0.45, 0.0, 0.45),
}
"""Fractions of the latency spent in each phase."""
_PARTITIONS: Final = 4
_FAIR: Final = LaneEvidence(
    "", "one", worker=0, batches_per_second=10.0, bytes_per_second=100_000.0, cpu=0.07, worker_cpu=0.3
)


def lanes_in(trouble: Trouble | None, sight: StepView) -> Evidence:
    """Return the evidence of all lanes. Only a hot partition or an overloaded task makes some lanes late and
    others not."""
    found = [_one(number, trouble, sight) for number in range(_PARTITIONS)]
    if trouble is not None and trouble.cause is Cause.HOT_PARTITION:
        calm = replace(_FAIR, lag_ms=0, lag_records=0, state=MovementState.OK)
        found = [found[0], *(replace(calm, partition=one.partition, task=one.task) for one in found[1:])]
        if trouble.is_alone:
            found[1:] = [replace(one, task="b") for one in found[1:]]
    if trouble is not None and trouble.cause is Cause.OVERLOADED_TASK:
        calm = replace(_FAIR, lag_ms=0, lag_records=0, state=MovementState.OK)
        found[2:] = [replace(calm, partition=one.partition, task=one.task) for one in found[2:]]
    return Evidence(tuple(found))


def lanes_without(side: Cause, waiting: float) -> Evidence:
    """Return the evidence while a cluster does not respond. The backlog is unknown if that is the source."""
    known = round(waiting / _PARTITIONS) if side is Cause.DESTINATION_BOUND else None
    lane = replace(_FAIR, state=_AWAY[side], lag_records=known)
    return Evidence(tuple(_named(number, lane) for number in range(_PARTITIONS)))


def _named(number: int, lane: LaneEvidence) -> LaneEvidence:
    return replace(lane, partition=f"t-{number}", task="ab"[number // 2])


def _one(number: int, trouble: Trouble | None, sight: StepView) -> LaneEvidence:
    late = replace(
        _named(number, _FAIR),
        lag_ms=sight.lag_ms,
        lag_records=round(sight.waiting / _PARTITIONS),
        phases=_spent(trouble, sight.late_ms),
        state=_movement(sight),
        eta_seconds=sight.waiting / sight.fall if sight.fall else None,
    )
    match trouble.cause if trouble is not None else None:
        case None if sight.waiting:  # the backlog is copied at full speed
            return _busy(late, waited=0.0)
        case Cause.HOT_PARTITION | Cause.OVERLOADED_TASK as cause:
            rate = 300_000.0 if cause is Cause.HOT_PARTITION else 150_000.0
            return replace(late, hold=QuotaHold(QuotaOwner.TASK, 0.9), bytes_per_second=rate)
        case Cause.OVERLOADED_INSTANCE:
            return _busy(late, waited=0.5)
        case Cause.OUR_QUOTA | Cause.BROKER_QUOTA:
            assert trouble is not None
            assert trouble.quota is not None
            return replace(late, hold=QuotaHold(trouble.quota, 0.8, 3))
        case Cause.OPEN_TRANSACTION | Cause.PAUSED as cause:
            return replace(late, phases=None, state=_STANDING[cause], batches_per_second=0.0)
        case Cause.START_UP:
            return replace(late, phases=None, state=None, is_starting=True, batches_per_second=0.0)
    return late


def _busy(lane: LaneEvidence, waited: float) -> LaneEvidence:
    """Return a lane whose worker process is fully busy, almost entirely with this datastream."""
    return replace(lane, worker_cpu=1.0 - waited, cpu=0.4 - waited / 2, worker_waited=waited)


def _movement(sight: StepView) -> MovementState:
    if not sight.waiting:
        return MovementState.OK
    return MovementState.CATCHING_UP if sight.fall else MovementState.WARN


def _spent(trouble: Trouble | None, late_ms: float) -> Phases:
    shares = _SPENT.get(trouble.cause if trouble is not None else Cause.UNKNOWN, Phases(0.7, 0.1, 0.1, 0.1))
    return Phases(*(share * late_ms for share in shares))
