"""What the partitions of a datastream do that are not OK: how many are in each state, and the worst of them.

So that what is said of 200,000 partitions stays small: rows by topic and state add up to rows by datastream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition
from monitor.movement.states import Judgement, MovementState


@dataclass(frozen=True, slots=True)
class StateCount:
    """Partitions in one state. `worst`: the one that has been so for longest, `since_ms` (epoch; None where
    that is not known of any), and what is said of it."""

    state: MovementState
    partitions: int
    worst: str
    reason: str
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LossAhead:
    """Partitions of which the source deletes records before they are copied, as things stand. `worst`: the
    one that loses data first, after `seconds`; None of `eta_seconds`: it does not catch up."""

    partitions: int
    worst: str
    seconds: float
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Movement:
    """What the partitions of something do that are not OK; nothing where all are, or nothing is known."""

    states: tuple[StateCount, ...] = ()
    loss: LossAhead | None = None


class PartitionMovement(NamedTuple):
    """What was found of one partition. `since_ms`: as `judgement.since`, in epoch milliseconds."""

    partition: TopicPartition
    judgement: Judgement
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class Moving:
    """One datastream. `cluster`: of its source."""

    cluster: str
    movement: Movement


@dataclass(frozen=True)
class Movements:
    """Every datastream that is defined. `is_complete`: all instances were heard, and one of them leads; else
    what is missing may be the worst."""

    datastreams: Mapping[DatastreamName, Moving] = field(default_factory=dict)
    is_complete: bool = False


NOTHING_KNOWN = Movements()


def movement_of(found: Iterable[PartitionMovement]) -> Movement:
    """Of partitions one by one. What a state of None or OK says is left out."""
    parts = []
    for place, one, since_ms in found:
        if one.state is None or one.state is MovementState.OK:
            continue
        count = StateCount(one.state, 1, str(place), one.reason, since_ms)
        loss = None
        if one.loses_data and one.seconds_to_loss is not None:
            loss = LossAhead(1, str(place), one.seconds_to_loss, one.eta_seconds)
        parts.append(Movement((count,), loss))
    return added(parts)


def added(parts: Iterable[Movement]) -> Movement:
    """Of several things together."""
    states: dict[MovementState, StateCount] = {}
    loss: LossAhead | None = None
    for part in parts:
        for one in part.states:
            known = states.get(one.state)
            states[one.state] = one if known is None else _longer(known, one)
        if part.loss is not None:
            loss = part.loss if loss is None else _sooner(loss, part.loss)
    return Movement(tuple(states[key] for key in sorted(states)), loss)


def _longer(one: StateCount, other: StateCount) -> StateCount:
    def order(count: StateCount) -> tuple[bool, int, str]:
        return count.since_ms is None, count.since_ms or 0, count.worst

    worst = min(one, other, key=order)
    total = one.partitions + other.partitions
    return StateCount(one.state, total, worst.worst, worst.reason, worst.since_ms)


def _sooner(one: LossAhead, other: LossAhead) -> LossAhead:
    worst = min(one, other, key=lambda loss: (loss.seconds, loss.worst))
    return LossAhead(one.partitions + other.partitions, worst.worst, worst.seconds, worst.eta_seconds)
