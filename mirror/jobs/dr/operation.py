"""State of a pair of clusters and of its switch-over, and the decisions about the next act. Pure.

The state is stored before each act, with the parameters of the act. A switch-over that was interrupted after
the fence resumes at the fence, because a fence was verified only for the past. Acts are therefore idempotent,
and an undo removes only what the switch-over has created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from mirror.errors import CorruptData, IllegalTransition, NewerFormat

FORMAT: Final = 1
MOST_HISTORY: Final = 20
"""Past operations that are kept."""

PartitionOffsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""


class Step(StrEnum):
    """Steps of a switch-over, in order."""

    LAG_OK = "LAG_OK"
    """The copy is running, and its lag is below the target."""
    FENCED = "FENCED"
    """The producers are denied Write at the origin."""
    FENCE_VERIFIED = "FENCE_VERIFIED"
    """No record was written at the origin for some seconds."""
    DRAINED = "DRAINED"
    """Checkpoints have reached the ends of the origin."""
    AUDITED = "AUDITED"
    """Every offset of the origin has a class."""
    GROUPS_MOVED = "GROUPS_MOVED"
    """The positions of consumer groups are committed at the target."""
    STOPPED = "STOPPED"
    """The datastreams to the target are stopped."""
    REVERSED = "REVERSED"
    """The datastreams to the target are deleted. Those in the opposite direction run, from the ends of the
    target."""
    OPEN = "OPEN"
    """Producers may write at the target. There is no way back but another switch-over."""


_ORDER: Final = tuple(Step)


class _PairRecord(BaseModel):
    model_config = ConfigDict(frozen=True)


class Denial(_PairRecord):
    """Denial of Write on a topic that a switch-over has created."""

    topic: str
    principal: str


class StepBegun(_PairRecord):
    """Time at which a step was begun (epoch ms); several times after restarts."""

    step: Step
    at_ms: int


class MovedGroup(_PairRecord):
    """Consumer group whose positions were committed at the target. `positions`: their number. `ahead`: number
    of positions that the group had passed at the target already. `has_members`: whether it still had members
    at the origin, which may have read on."""

    name: str
    positions: int
    ahead: int = 0
    has_members: bool = False

    @property
    def read_again(self) -> int | None:
        """Number of records that the group has committed at the origin and reads again at the target; None if
        unknown. A switch-over waits until every position has an exact counterpart."""
        return None if self.has_members else 0


class AuditedTopic(_PairRecord):
    """State of the continuous audit of a topic. `through_ms`: every record with an earlier timestamp is at
    the target, None if unknown. `faults`: number of records that differ. `more_faults`: number of further
    windows with differences."""

    topic: str
    through_ms: int | None
    faults: int
    more_faults: int
    problem: str


class _Account(_PairRecord):
    """Facts about a switch-over. `operator`: who began it. `failure`: reason why it is or was undone, empty
    if it is not. `notes`: remarks for the operator."""

    identity: str
    origin: str
    target: str
    begun_ms: int
    operator: str = ""
    failure: str = ""
    steps: tuple[StepBegun, ...] = ()
    notes: tuple[str, ...] = ()
    groups: tuple[MovedGroup, ...] = ()
    """Groups that were moved."""
    audits: tuple[AuditedTopic, ...] = ()
    """Continuous audits at the step `AUDITED`."""
    gaps: tuple[str, ...] = ()
    """Sentences about offsets that the origin lost before they were copied."""


class Switchover(_Account):
    """A switch-over in progress.

    `step`: the step whose act may have been done, in part or as a whole. `reached`: the furthest step that
    was ever begun. `fence`: denials that it creates at the origin. `ends`: ends of the origin when writes had
    stopped. `starts`: ends of the target, at which the opposite datastreams start. `definitions`: the
    datastreams that it replaces, by their present names.
    """

    step: Step = Step.LAG_OK
    reached: Step = Step.LAG_OK
    fence: tuple[Denial, ...] = ()
    ends: PartitionOffsets = {}
    starts: PartitionOffsets = {}
    definitions: Mapping[str, Mapping[str, Any]] = {}

    @property
    def is_final(self) -> bool:
        """Return whether the point of no return has been passed."""
        return self.reached is Step.OPEN

    def with_(self, **fields: Any) -> Switchover:
        """Return a copy with these fields."""
        return self.model_copy(update=fields)


class PastSwitchover(_Account):
    """A switch-over that has ended. `closed_ms`: time during which producers were fenced, in milliseconds."""

    ended_ms: int
    closed_ms: int = 0
    ends: PartitionOffsets = {}
    starts: PartitionOffsets = {}

    @property
    def abridged(self) -> PastSwitchover:
        """The same without lists that grow with topics and groups; only the last operation has these."""
        return self.model_copy(update={"ends": {}, "starts": {}, "groups": (), "audits": (), "gaps": ()})


class PairState(_PairRecord):
    """State of a pair. `version`: number of writes. `writer`: identity of the process
    that has written it. `active`: cluster that producers write to.
    `datastreams`: present names by configured name; `previous`: those of the opposite direction before.
    `fences`: denials at the cluster that is not active."""

    format: int = FORMAT
    name: str
    version: int = 0
    writer: str = ""
    active: str
    generation: int = 0
    datastreams: Mapping[str, str]
    previous: Mapping[str, str] = {}
    fences: tuple[Denial, ...] = ()
    operation: Switchover | None = None
    history: tuple[PastSwitchover, ...] = ()

    def with_(self, **fields: Any) -> PairState:
        """Return a copy with these fields."""
        return self.model_copy(update=fields)

    @property
    def next_names(self) -> Mapping[str, str]:
        """Return names for the opposite datastreams that none has ever had."""
        return {name: f"{name}-dr{self.generation + 1}" for name in self.datastreams}


def write_state(state: PairState) -> bytes:
    """Return the stored form."""
    return state.model_dump_json().encode()


def read_state(value: bytes) -> PairState:
    """Return a stored state. Raises CorruptData, NewerFormat."""
    try:
        document = json.loads(value)
        version = int(document["format"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptData(f"the stored state of a pair is unreadable: {error!r}") from error
    if version > FORMAT:
        raise NewerFormat(f"the stored state of a pair has format {version}, this version {FORMAT}")
    try:
        return PairState.model_validate(document)
    except ValidationError as error:
        raise CorruptData(f"the stored state of a pair is unreadable: {error}") from error


def operation_of(state: PairState) -> Switchover:
    """Return the operation in progress. Raises IllegalTransition if there is none."""
    if state.operation is None:
        raise IllegalTransition(f"no switch-over of {state.name} is in progress")
    return state.operation


def has_reached(operation: Switchover, step: Step) -> bool:
    """Return whether a step has ever been begun."""
    return _ORDER.index(operation.reached) >= _ORDER.index(step)


def begin(state: PairState, target: str, identity: str, now_ms: int, operator: str) -> PairState:
    """Return the state with a new switch-over, or with the one to the same target that is in progress.

    Raises IllegalTransition if the target is active already, or another operation is in progress.
    """
    present = state.operation
    if present is not None:
        if present.target != target:
            raise IllegalTransition(
                f"a switch-over of {state.name} to {present.target} is in progress",
                advice=f"run headrace dr abort {state.name}, or complete it",
            )
        return state.with_(operation=resumed(present))
    if state.active == target:
        raise IllegalTransition(f"{target} is already the active cluster of {state.name}")
    operation = Switchover(
        identity=identity, origin=state.active, target=target, begun_ms=now_ms, operator=operator
    )
    return state.with_(operation=operation)


def resumed(operation: Switchover) -> Switchover:
    """Return the operation as it continues after a restart: a fence is made and verified again."""
    if operation.failure or operation.is_final or not has_reached(operation, Step.FENCED):
        return operation
    return operation.with_(step=Step.FENCED)


def entered(operation: Switchover, step: Step, now_ms: int) -> Switchover:
    """Return the operation at the beginning of a step."""
    reached = step if _ORDER.index(step) > _ORDER.index(operation.reached) else operation.reached
    begun = (*operation.steps, StepBegun(step=step, at_ms=now_ms))
    return operation.with_(step=step, reached=reached, steps=begun)


def step_after(step: Step) -> Step | None:
    """Return the next step; None after the last one."""
    number = _ORDER.index(step) + 1
    return _ORDER[number] if number < len(_ORDER) else None


def failed(state: PairState, reason: str) -> PairState:
    """Return the state whose operation is undone. Raises IllegalTransition if there is no way back."""
    operation = operation_of(state)
    if operation.is_final:
        raise IllegalTransition(
            f"the switch-over of {state.name} to {operation.target} has passed the point of no return",
            advice=f"complete it with headrace dr switchover {state.name} --to {operation.target}",
        )
    return state.with_(operation=operation.with_(failure=operation.failure or reason))


def steps_to_undo(operation: Switchover) -> tuple[Step, ...]:
    """Return the steps that have something to undo, the last one first."""
    undoable = (Step.REVERSED, Step.STOPPED, Step.FENCED)
    return tuple(step for step in undoable if has_reached(operation, step))


def completed(state: PairState, now_ms: int) -> PairState:
    """Return the state after the operation, which has exchanged the roles or has been undone."""
    operation = state.operation
    if operation is None:
        return state
    earlier = (past.abridged for past in state.history)
    history = (*earlier, _past(operation, now_ms))[-MOST_HISTORY:]
    if operation.failure:
        # The opposite datastreams may have stored progress, so their names must not be used again.
        return state.with_(operation=None, history=history, generation=state.generation + 1)
    return state.with_(
        active=operation.target,
        generation=state.generation + 1,
        datastreams=state.next_names,
        previous=state.datastreams,
        fences=operation.fence,
        operation=None,
        history=history,
    )


def _past(operation: Switchover, now_ms: int) -> PastSwitchover:
    fenced = [begun.at_ms for begun in operation.steps if begun.step is Step.FENCED]
    return PastSwitchover(
        **{key: getattr(operation, key) for key in _Account.model_fields},
        ended_ms=now_ms,
        closed_ms=max(now_ms - fenced[0], 0) if fenced else 0,
        ends=operation.ends,
        starts=operation.starts,
    )
