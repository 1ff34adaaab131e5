"""State of a pair of clusters, and the steps of its operations. Pure.

An operation is a switch-over, a failover, a failback, or a decision about records that were not copied (the
tail); `STEPS` lists the steps of each. Before a step acts, the state is stored with the parameters of the
step. If an operation is interrupted after the fence, it resumes at the fence, because producers may have
written in the meantime. Therefore all steps are idempotent. An undo removes only resources that the operation
has created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from mirror.errors import CorruptData, IllegalTransition, NewerFormat
from mirror.jobs.dr.fork import Fork, Loss, LossLimit, PairRecord, TailDecision
from mirror.options import first_problem

FORMAT: Final = 2
MOST_HISTORY: Final = 20
"""Maximum number of past operations in the stored state."""


class Kind(StrEnum):
    """Types of operations on a pair of clusters."""

    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"
    REPLAY = "replay"
    """Write the tail (records that were not copied) to the active cluster."""
    SKIP = "skip"
    """Leave the tail (records that were not copied) on the lost cluster."""


class Step(StrEnum):
    """Steps of operations on a pair of clusters."""

    LAG_OK = "LAG_OK"
    """All datastreams are running, and their lag is below `rpo_seconds`."""
    FENCED = "FENCED"
    """ACLs at the origin deny Write to the producers."""
    FENCE_VERIFIED = "FENCE_VERIFIED"
    """No record was written at the origin for `still_seconds`."""
    DRAINED = "DRAINED"
    """Checkpoints have reached the end offset of every origin partition."""
    AUDITED = "AUDITED"
    """Every offset of the origin is accounted for."""
    GROUPS_MOVED = "GROUPS_MOVED"
    """The positions of consumer groups are committed at the target."""
    STOPPED = "STOPPED"
    """The datastreams from the origin to the target are stopped."""
    REVERSED = "REVERSED"
    """The datastreams from the origin to the target are deleted. The opposite datastreams run from the end
    offsets of the target."""
    OPEN = "OPEN"
    """Producers may write to the target. From here, only another switch-over reverses the direction."""

    LOSS_ACCEPTED = "LOSS_ACCEPTED"
    """The loss of a failover is within the limit."""
    FORKED = "FORKED"
    """The end offsets of the copied records are stored as the fork."""
    SETTLED = "SETTLED"
    """Both clusters were compared, to find copied records above the last checkpoints."""
    REPLAYED = "REPLAYED"
    """All records of the tail are written to the active cluster."""
    TAIL_DECIDED = "TAIL_DECIDED"
    """Every record of the tail is replayed or skipped."""


_FENCE: Final = (Step.FENCED, Step.FENCE_VERIFIED, Step.SETTLED)
STEPS: Final[Mapping[Kind, tuple[Step, ...]]] = {
    Kind.SWITCHOVER: (
        Step.LAG_OK,
        Step.FENCED,
        Step.FENCE_VERIFIED,
        Step.DRAINED,
        Step.AUDITED,
        Step.GROUPS_MOVED,
        Step.STOPPED,
        Step.REVERSED,
        Step.OPEN,
    ),
    Kind.FAILOVER: (Step.LOSS_ACCEPTED, Step.STOPPED, Step.FORKED, Step.GROUPS_MOVED, Step.OPEN),
    Kind.FAILBACK: (*_FENCE, Step.TAIL_DECIDED, Step.REVERSED),
    Kind.REPLAY: (*_FENCE, Step.REPLAYED),
    Kind.SKIP: _FENCE,
}
"""Steps of each kind of operation, in order."""
_FINAL: Final = {Kind.SWITCHOVER: Step.OPEN, Kind.FAILOVER: Step.OPEN, Kind.FAILBACK: Step.REVERSED}
"""Point of no return of each kind: first step that cannot be undone. Other kinds can always be undone."""
ON_TAIL: Final = (Kind.FAILBACK, Kind.REPLAY, Kind.SKIP)
"""Kinds of operations on the tail of a fork. Origin: the lost cluster; target: the active cluster."""


class Denial(PairRecord):
    """An ACL that an operation creates to deny a principal Write on a topic."""

    topic: str
    principal: str


class StepBegun(PairRecord):
    """Start time of a step (`at_ms`, epoch ms). Repeated steps have several entries."""

    step: Step
    at_ms: int


class MovedGroup(PairRecord):
    """A consumer group whose positions were committed at the target of the operation.

    `positions`: number of committed positions. `ahead`: number of partitions in which the group was already
    ahead at the target. `has_members`: whether the group had members at the origin, which may have committed
    later positions. `may_redeliver`: whether records after the start offset may be delivered again (share
    groups).
    """

    name: str
    positions: int
    ahead: int = 0
    has_members: bool = False
    may_redeliver: bool = False

    @property
    def read_again(self) -> int | None:
        """Number of records that the group reads again at the target although it has committed them at the
        origin. 0 after a switch-over, which waits for exact positions. None for a share group, or if members
        may have continued reading."""
        return None if self.has_members or self.may_redeliver else 0


class AuditedTopic(PairRecord):
    """State of the continuous audit of a topic. `through_ms`: event time before which all records are at the
    target; None if unknown. `faults`: number of records in the listed faults. `more_faults`: number of
    faults that are not listed."""

    topic: str
    through_ms: int | None
    faults: int
    more_faults: int
    problem: str


class BegunOperation(PairRecord):
    """Identity of an operation, its two clusters, and its start time (epoch ms)."""

    identity: str
    origin: str
    target: str
    begun_ms: int


class _Account(BegunOperation):
    """Results and messages of an operation, as its report shows them. `operator`: user who started the
    operation. `continued_by`: other users who continued or undid it. `failure`: reason for the undo, or an
    empty string. `notes`: notes for the operator. `loss`: loss of a failover."""

    kind: Kind = Kind.SWITCHOVER
    operator: str = ""
    continued_by: tuple[str, ...] = ()
    failure: str = ""
    steps: tuple[StepBegun, ...] = ()
    notes: tuple[str, ...] = ()
    loss: Loss | None = None
    groups: tuple[MovedGroup, ...] = ()
    """Consumer groups whose positions were committed at the target."""
    audits: tuple[AuditedTopic, ...] = ()
    """State of the continuous audits after the step `AUDITED`."""
    gaps: tuple[str, ...] = ()
    """Messages about offset ranges that the origin lost before they were copied."""


class Switchover(_Account):
    """A switch-over, failover, failback, or decision about uncopied records, in progress.

    `step`: current step, which may be partly complete. `reached`: the furthest step that was ever begun.
    `fence`: ACLs that this operation creates at the origin. `ends`: end offsets of the origin after writes
    stopped. `starts`: end offsets of the target, from which the opposite datastreams start. `definitions`:
    datastreams that this operation replaces, by current name. `limit`: accepted loss of a failover. `fork`:
    the fork after this operation. `selection`, `records`: topics and number of records of a decision about
    the tail.
    """

    step: Step = Step.LAG_OK
    reached: Step = Step.LAG_OK
    fence: tuple[Denial, ...] = ()
    ends: Mapping[str, Mapping[int, int]] = {}
    starts: Mapping[str, Mapping[int, int]] = {}
    definitions: Mapping[str, Mapping[str, Any]] = {}
    limit: LossLimit = LossLimit()
    fork: Fork | None = None
    selection: str = ""
    records: int = 0

    @property
    def is_final(self) -> bool:
        """Return whether the operation has passed the point of no return."""
        return self.reached is _FINAL.get(self.kind)

    def with_(self, **fields: Any) -> Switchover:
        """Return a copy in which the given fields have new values."""
        return self.model_copy(update=fields)

    def by(self, operator: str) -> Switchover:
        """Return the operation with this operator added to the users who continued it."""
        others = dict.fromkeys([*self.continued_by, operator])
        return self.with_(continued_by=tuple(name for name in others if name != self.operator))


class PastSwitchover(_Account):
    """A completed or undone operation in the history of a pair. `closed_ms`: time during which producers
    could not write, in ms. For a failover, the duration of the operation."""

    ended_ms: int
    closed_ms: int = 0
    ends: Mapping[str, Mapping[int, int]] = {}
    starts: Mapping[str, Mapping[int, int]] = {}

    @property
    def abridged(self) -> PastSwitchover:
        """Return the operation without large results. Only the last operation of the history keeps them."""
        return self.model_copy(
            update={"ends": {}, "starts": {}, "groups": (), "audits": (), "gaps": (), "loss": None}
        )


class PairState(PairRecord):
    """State of a pair of clusters. `version`: number of writes. `writer`: identity of the process that wrote
    this state. `active`: cluster to which producers write. `datastreams`: maps configured names of
    datastreams to current names. `previous`: names before the last switch-over. `fences`: ACLs on the other
    cluster. `fork`: set between a failover and the failback, while the datastreams are deleted."""

    format: int = FORMAT
    name: str
    version: int = 0
    writer: str = ""
    active: str
    generation: int = 0
    datastreams: Mapping[str, str]
    previous: Mapping[str, str] = {}
    fences: tuple[Denial, ...] = ()
    fork: Fork | None = None
    operation: Switchover | None = None
    history: tuple[PastSwitchover, ...] = ()

    def with_(self, **fields: Any) -> PairState:
        """Return a copy in which the given fields have new values."""
        return self.model_copy(update=fields)

    @property
    def next_names(self) -> Mapping[str, str]:
        """Map each configured datastream name to an unused name for the opposite datastream."""
        return {name: f"{name}-dr{self.generation + 1}" for name in self.datastreams}


def write_state(state: PairState) -> bytes:
    """Serialize the state of a pair."""
    return state.with_(format=FORMAT).model_dump_json().encode()


def read_state(value: bytes) -> PairState:
    """Parse the stored state of a pair. Raises CorruptData, NewerFormat."""
    try:
        document = json.loads(value)
        version = int(document["format"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptData(f"the stored state of a pair is unreadable: {error!r}") from error
    if version > FORMAT:
        raise NewerFormat(f"the stored state of a pair has format {version}, the latest known is {FORMAT}")
    try:
        return PairState.model_validate(document)
    except ValidationError as error:
        raise CorruptData(f"the stored state of a pair is unreadable: {first_problem(error)}") from error


def operation_of(state: PairState) -> Switchover:
    """Return the operation in progress. Raises IllegalTransition if there is none."""
    if state.operation is None:
        raise IllegalTransition(f"no operation of {state.name} is in progress")
    return state.operation


def fork_of_pair(state: PairState) -> Fork:
    """Return the fork of a pair. Raises IllegalTransition if the pair has no fork."""
    if state.fork is None:
        raise IllegalTransition(
            f"{state.name} has no undecided records: it has not failed over since the last failback"
        )
    return state.fork


def is_returning(state: PairState) -> bool:
    """Return whether a failback runs its datastreams but has not yet switched over."""
    done = [past.kind for past in state.history if not past.failure]
    return state.fork is None and done[-1:] == [Kind.FAILBACK]


def has_reached(operation: Switchover, step: Step) -> bool:
    """Return whether the operation has ever begun this step."""
    steps = STEPS[operation.kind]
    return step in steps and steps.index(operation.reached) >= steps.index(step)


def begin(
    state: PairState,
    target: str,
    identity: str,
    now_ms: int,
    operator: str,
    kind: Kind = Kind.SWITCHOVER,
    **fields: Any,
) -> PairState:
    """Start an operation, or resume it if an operation of the same kind and target is in progress.

    `fields`: parameters of a new operation.

    Raises IllegalTransition if another operation is in progress, if the pair has no tail, or if the target is
    already active.
    """
    present = state.operation
    if present is not None:
        if (present.kind, present.target) != (kind, target):
            raise IllegalTransition(
                f"a {present.kind} of {state.name} to {present.target} is in progress",
                advice=f"run headrace dr abort {state.name}, or complete it",
            )
        return state.with_(operation=resumed(present).by(operator))
    if kind in ON_TAIL:
        fork = fork_of_pair(state)
        fields = {"definitions": fork.definitions, **fields, "fork": fork}
    elif state.fork is not None:
        raise IllegalTransition(
            f"{state.name} has failed over to {state.active}", advice=f"run headrace dr failback {state.name}"
        )
    elif state.active == target:
        raise IllegalTransition(f"{target} is already the active cluster of {state.name}")
    first = STEPS[kind][0]
    operation = Switchover(
        kind=kind,
        identity=identity,
        origin=state.active if state.fork is None else state.fork.cluster,
        target=target,
        begun_ms=now_ms,
        operator=operator,
        step=first,
        reached=first,
        **fields,
    )
    return state.with_(operation=operation)


def resumed(operation: Switchover) -> Switchover:
    """Return the operation, set back to the step at which it resumes after a restart. A fence is created and
    verified again, and a failover stops the datastreams again."""
    first = Step.STOPPED if operation.kind is Kind.FAILOVER else Step.FENCED
    if operation.failure or operation.is_final or not has_reached(operation, first):
        return operation
    return operation.with_(step=first)


def entered(operation: Switchover, step: Step, now_ms: int) -> Switchover:
    """Return the operation at the start of a step, with its start time added."""
    steps = STEPS[operation.kind]
    reached = step if steps.index(step) > steps.index(operation.reached) else operation.reached
    begun = (*operation.steps, StepBegun(step=step, at_ms=now_ms))
    return operation.with_(step=step, reached=reached, steps=begun)


def step_after(operation: Switchover) -> Step | None:
    """Return the step after the current step; None if the current step is the last."""
    steps = STEPS[operation.kind]
    number = steps.index(operation.step) + 1
    return steps[number] if number < len(steps) else None


def failed(state: PairState, reason: str) -> PairState:
    """Return the state with its operation marked for undo. Raises IllegalTransition after the point of no
    return."""
    operation = operation_of(state)
    if operation.is_final:
        raise IllegalTransition(
            f"the {operation.kind} of {state.name} to {operation.target} has passed the point of no return",
            advice="complete it: run the same command again",
        )
    return state.with_(operation=operation.with_(failure=operation.failure or reason))


def steps_to_undo(operation: Switchover) -> tuple[Step, ...]:
    """Return the steps to undo, in the order of the undo."""
    undoable = (Step.REVERSED, Step.STOPPED, Step.FENCED)
    return tuple(step for step in undoable if has_reached(operation, step))


def completed(state: PairState, now_ms: int) -> PairState:
    """Return the state of the pair after the current operation has ended, by success or undo."""
    operation = state.operation
    if operation is None:
        return state
    earlier = (past.abridged for past in state.history)
    history = (*earlier, _past(operation, now_ms))[-MOST_HISTORY:]
    after = state.with_(operation=None, history=history)
    if operation.failure:
        # The opposite datastreams may have stored progress, so their names must not be used again.
        return after.with_(generation=state.generation + 1)
    if operation.kind is Kind.FAILOVER:
        return after.with_(active=operation.target, fences=(), fork=operation.fork)
    if operation.kind in ON_TAIL:
        after = after.with_(fences=tuple(dict.fromkeys([*state.fences, *operation.fence])))
    if operation.kind in (Kind.REPLAY, Kind.SKIP):
        return after.with_(fork=_decided(operation, now_ms))
    after = after.with_(
        generation=state.generation + 1, datastreams=state.next_names, previous=state.datastreams, fork=None
    )
    if operation.kind is Kind.FAILBACK:
        return after
    return after.with_(active=operation.target, fences=operation.fence)


def _decided(operation: Switchover, now_ms: int) -> Fork | None:
    fork = operation.fork
    return fork and fork.after(
        TailDecision(
            action=operation.kind,
            at_ms=now_ms,
            operator=operation.operator,
            selection=operation.selection,
            records=operation.records,
            ends=operation.ends,
        )
    )


def _past(operation: Switchover, now_ms: int) -> PastSwitchover:
    is_failover = operation.kind is Kind.FAILOVER
    fenced = [begun.at_ms for begun in operation.steps if begun.step is Step.FENCED]
    began = [operation.begun_ms] if is_failover else fenced if operation.kind is Kind.SWITCHOVER else []
    return PastSwitchover(
        **{key: getattr(operation, key) for key in _Account.model_fields},
        ended_ms=now_ms,
        closed_ms=max(now_ms - began[0], 0) if began else 0,
        ends=operation.ends,
        starts=operation.starts,
    )
