"""Summarises the partitions of a datastream that are not OK: their number in each state, and the worst one.

The report on 200,000 partitions stays small, because the summaries of topics are added up to one summary per
datastream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_at
from mirror.model.topics import TopicPartition
from monitor.movement.states import LaneJudgement, MovementState


@dataclass(frozen=True, slots=True)
class StateCount:
    """Number of a datastream's partitions that are in one state, and the worst of them.

    `worst`: partition that has been in this state longest. `reason`, `since_ms`, `offset`: reason, start
    (epoch ms) and source offset of the worst partition; `since_ms` is None if unknown for all, `offset` if
    unknown or irrelevant. `idle`: number of partitions without
    waiting records and recent traffic. `without_process`: number of partitions whose worker process is
    missing or does not respond.
    """

    state: MovementState
    partitions: int
    worst: str
    reason: str
    since_ms: int | None = None
    idle: int = 0
    without_process: int = 0
    offset: int | None = None

    @property
    def text(self) -> str:
        """Reason with the offset."""
        return reason_at(self.reason, self.offset)

    @property
    def is_idle(self) -> bool:
        """True if all partitions in this state are idle."""
        return self.idle >= self.partitions


NEAR_SECONDS: Final = 14_400.0
"""Seconds beyond which a predicted loss is not a problem yet.

Every paused partition has a predicted loss, even if the source retains records for days.
"""


@dataclass(frozen=True, slots=True)
class LossAhead:
    """Partitions that will lose records at the source before they are copied, at the current rate.

    `worst`: partition that loses data first, after `seconds`. `eta_seconds`: time until it has caught up,
    None if it does not catch up. `share`: largest backlog of a partition as a share of its source log, None
    if unknown.
    """

    partitions: int
    worst: str
    seconds: float
    eta_seconds: float | None = None
    share: float | None = None

    @property
    def is_near(self) -> bool:
        """True if the loss is so near that an operator must act now."""
        return self.seconds <= NEAR_SECONDS


@dataclass(frozen=True, slots=True)
class Movement:
    """Summary of a datastream's partitions that are not OK, for each state. Empty if all are OK or
    unknown."""

    states: tuple[StateCount, ...] = ()
    loss: LossAhead | None = None


class PartitionMovement(NamedTuple):
    """State of one partition.

    `since_ms`: `judgement.since` in epoch ms. `is_idle`: no records wait, and none were copied recently.
    """

    partition: TopicPartition
    judgement: LaneJudgement
    since_ms: int | None
    is_idle: bool = False


@dataclass(frozen=True, slots=True)
class DatastreamStates:
    """Partition states of one datastream.

    `cluster`: source cluster. `destination`: destination cluster, empty if an older instance reported it.
    """

    cluster: str
    movement: Movement
    destination: str = ""


@dataclass(frozen=True)
class FleetMovement:
    """Partition states of all datastreams of the service.

    `is_complete`: all instances responded, including a leader. If False, the worst states may be missing.
    """

    datastreams: Mapping[DatastreamName, DatastreamStates] = field(default_factory=dict)
    is_complete: bool = False


NOTHING_KNOWN = FleetMovement()


def movement_of(found: Iterable[PartitionMovement]) -> Movement:
    """Summarise the states of partitions. Partitions with the state None or OK are ignored."""
    states: dict[MovementState, _StateCounter] = {}
    losing: list[PartitionMovement] = []
    for partition in found:
        state = partition.judgement.state
        if state is None or state is MovementState.OK:
            continue
        count = states.get(state)
        if count is None:
            states[state] = _StateCounter(partition)
        else:
            count.note(partition)
        if partition.judgement.loses_data:
            losing.append(partition)
    return Movement(tuple([states[key].count_of(key) for key in sorted(states)]), _loss_of(losing))


class _StateCounter:
    """Counts the partitions in one state, and keeps the details of the worst partition."""

    __slots__ = ("_idle", "_number", "_without_process", "_worst")

    def __init__(self, first: PartitionMovement) -> None:
        self._number, self._worst, self._idle = 1, first, int(first.is_idle)
        self._without_process = int(first.judgement.lacks_process)

    def note(self, partition_movement: PartitionMovement) -> None:
        """Add a partition to the count of its state."""
        self._number += 1
        self._idle += partition_movement.is_idle
        self._without_process += partition_movement.judgement.lacks_process
        since_ms, longest = partition_movement.since_ms, self._worst.since_ms
        if since_ms == longest:
            if str(partition_movement.partition) < str(self._worst.partition):
                self._worst = partition_movement
        elif longest is None or (since_ms is not None and since_ms < longest):
            self._worst = partition_movement

    def count_of(self, state: MovementState) -> StateCount:
        partition, judgement, since_ms, _ = self._worst
        return StateCount(
            state,
            self._number,
            str(partition),
            judgement.reason,
            since_ms,
            self._idle,
            self._without_process,
            judgement.offset,
        )


def _loss_of(losing: Sequence[PartitionMovement]) -> LossAhead | None:
    """Summarise the partitions that will lose data; None if there are none."""
    first: tuple[float, str, float | None] | None = None
    share: float | None = None
    for partition, judgement, *_ in losing:
        seconds, share = judgement.seconds_to_loss, _most(share, judgement.backlog_share)
        if seconds is not None and (first is None or seconds <= first[0]):
            loss = seconds, str(partition), judgement.eta_seconds
            first = loss if first is None or loss[:2] < first[:2] else first
    return None if first is None else LossAhead(len(losing), first[1], first[0], first[2], share)


def added(parts: Iterable[Movement]) -> Movement:
    """Add up several summaries of partition states."""
    states: dict[MovementState, StateCount] = {}
    loss: LossAhead | None = None
    for part in parts:
        for state in part.states:
            known = states.get(state.state)
            states[state.state] = state if known is None else _longer(known, state)
        if part.loss is not None:
            loss = part.loss if loss is None else _sooner(loss, part.loss)
    return Movement(tuple(states[key] for key in sorted(states)), loss)


def _longer(state_count: StateCount, other: StateCount) -> StateCount:
    def order(count: StateCount) -> tuple[bool, int, str]:
        return count.since_ms is None, count.since_ms or 0, count.worst

    worst = min(state_count, other, key=order)
    total = state_count.partitions + other.partitions
    idle = state_count.idle + other.idle
    without = state_count.without_process + other.without_process
    return replace(worst, partitions=total, idle=idle, without_process=without)


def _sooner(loss_ahead: LossAhead, other: LossAhead) -> LossAhead:
    worst = min(loss_ahead, other, key=lambda loss: (loss.seconds, loss.worst))
    partitions, share = loss_ahead.partitions + other.partitions, _most(loss_ahead.share, other.share)
    return LossAhead(partitions, worst.worst, worst.seconds, worst.eta_seconds, share)


def _most(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)
