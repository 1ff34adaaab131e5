"""Runs or undoes the steps of an operation. The state of the pair is stored before each step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from mirror.errors import HeadraceError, VersionConflict
from mirror.jobs.dr.operation import (
    Kind,
    PairState,
    Step,
    Switchover,
    completed,
    entered,
    failed,
    operation_of,
    step_after,
    steps_to_undo,
)
from mirror.ports import Clock

T = TypeVar("T")


class Acts(Protocol):
    """Interface that performs and undoes the steps of a switch-over, failover or failback.

    All methods are idempotent. The methods raise retriable errors if a retry may help.
    """

    def intend(self, state: PairState, operation: Switchover) -> Switchover:
        """Return the operation with the parameters of its current step filled in. Makes no changes."""
        ...

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        """Perform the current step of an operation. Return the operation with the step's results."""
        ...

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        """Undo a step of an operation, even if it was performed only partly or not at all."""
        ...


class StateStore(Protocol):
    """Storage for the state of a pair of clusters."""

    def save(self, state: PairState, *, everywhere: bool) -> PairState:
        """Store the state of a pair, and return it with its new version.

        `everywhere`: fail if either cluster cannot store a copy. Raises VersionConflict if another operator
        has changed the state concurrently.
        """
        ...


class Driver:
    """Runs one switch-over, failover or failback of a pair of clusters.

    `may_repeat`: callback before a retry. Receives the error and whether an undo failed. Waits, and returns
    False to stop retrying. `note`: callback at the beginning of each step.
    """

    def __init__(
        self,
        acts: Acts,
        store: StateStore,
        clock: Clock,
        may_repeat: Callable[[HeadraceError, bool], bool],
        note: Callable[[str], None],
    ) -> None:
        self._acts = acts
        self._store = store
        self._clock = clock
        self._may_repeat = may_repeat
        self._note = note

    def run(self, state: PairState) -> PairState:
        """Run the operation from its current step to its end.

        If a step fails, undo the operation. The last entry of the history then contains the reason.

        Raises VersionConflict if another operator runs the operation. Raises the error of a step that fails
        after the point of no return, and the error of a failed undo. In both cases, the operation remains
        stored and must be run again.
        """
        operation = state.operation
        while operation is not None and not operation.failure:
            try:
                state = self._step(state, operation)
            except _ActFailed as failure:
                state = failure.state
                if operation_of(state).is_final:
                    raise failure.error from None
                return self.undo(state, str(failure.error))
            after = step_after(operation)
            if after is None:
                return self._save(completed(state, self._clock.now_ms()))
            operation = operation_of(state).with_(step=after)
        return self.undo(state, "") if operation is not None else state

    def undo(self, state: PairState, reason: str) -> PairState:
        """Undo an operation. Raises IllegalTransition after the point of no return, and errors of `Acts`."""
        state = self._save(failed(state, reason), is_undo=True)
        operation = operation_of(state)
        for step in steps_to_undo(operation):
            self._note(f"undo {step}")
            self._patiently(partial(self._acts.undo, state, operation, step), is_undo=True)
        return self._save(completed(state, self._clock.now_ms()), is_undo=True)

    def _step(self, state: PairState, operation: Switchover) -> PairState:
        """Perform the current step, and retry until it succeeds. Raises _ActFailed."""
        step = operation.step
        self._note(step)
        try:
            intended = self._patiently(lambda: self._acts.intend(state, operation))
            begun = entered(intended, step, self._clock.now_ms())
            state = self._save(state.with_(operation=begun))
            result = self._patiently(lambda: self._acts.perform(state, operation_of(state)))
        except VersionConflict:
            raise
        except HeadraceError as error:
            raise _ActFailed(state, error) from error
        return state.with_(operation=result)

    def _save(self, state: PairState, *, is_undo: bool = False) -> PairState:
        operation = state.operation or state.history[-1]
        everywhere = not is_undo and operation.kind is not Kind.FAILOVER
        return self._patiently(lambda: self._store.save(state, everywhere=everywhere), is_undo=is_undo)

    def _patiently(self, act: Callable[[], T], *, is_undo: bool = False) -> T:
        while True:
            try:
                return act()
            except VersionConflict:
                raise
            except HeadraceError as error:
                if not error.retriable or not self._may_repeat(error, is_undo):
                    raise


class _ActFailed(Exception):
    """Raised if a step has failed permanently. `state`: the last stored state of the pair."""

    def __init__(self, state: PairState, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.state = state
        self.error = error
