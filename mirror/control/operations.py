"""Reads long-running operations: those in progress, and those finished within the last day."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.control.handlers import Control
from mirror.coordination.operation import OPERATION_ID, Operation, OperationState, halting, waiting
from mirror.coordination.outcome_store import OutcomeStore
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.ports import Clock


class Operations:
    """Reads long-running operations: running ones and results. Thread-safe."""

    def __init__(
        self, control: Control, requests: RequestQueue, outcomes: OutcomeStore, clock: Clock
    ) -> None:
        self._control = control
        self._requests = requests
        self._outcomes = outcomes
        self._clock = clock

    def all(self) -> tuple[Operation, ...]:
        """Return all running and recently finished operations, newest first."""
        return tuple(sorted(self._known(self._control.list()).values(), key=_moment_of, reverse=True))

    def get(self, identity: str) -> Operation:
        """Return the current state of an operation. Raises NotFound."""
        if OPERATION_ID.fullmatch(identity):
            found = self._find(identity, self._control.list())
            if found is None:  # writes of another instance may not have arrived here yet
                self._control.catch_up()
                found = self._find(identity, self._control.list_again())
            if found is not None:
                return found
        raise NotFound(f"unknown operation {shown(identity)}", advice="results are kept for a day")

    def _find(self, identity: str, definitions: Definitions) -> Operation | None:
        """Return the operation with this id, or None. The operation of a stop can also be derived from a
        stopped datastream."""
        known = self._known(definitions).get(identity)
        if known is not None or not identity.startswith("s"):
            return known
        halts = (halting(datastream) for datastream in definitions.datastreams)
        return next((halt for halt in halts if halt is not None and halt.id == identity), None)

    def _known(self, definitions: Definitions) -> Mapping[str, Operation]:
        """Return a mapping of id to operation with all running and recently finished operations.

        Running operations are read before finished ones, so an operation that ends between the two reads is
        not missed.
        """
        halts = (halting(datastream) for datastream in definitions.datastreams)
        running = [halt for halt in halts if halt is not None and halt.state is OperationState.RUNNING]
        queued = [waiting(request) for request in self._requests.waiting()]
        over = self._outcomes.newest(self._clock.now_ms())
        found = {operation.id: operation for operation in (*reversed(over), *queued, *running)}
        return {
            identity: operation for identity, operation in found.items() if OPERATION_ID.fullmatch(identity)
        }


def _moment_of(operation: Operation) -> tuple[bool, int, str]:
    """Return a sort key by time. Operations without a time are in progress, and sort as newest."""
    moments = [moment for moment in (operation.created_ms, operation.finished_ms) if moment is not None]
    return not moments, moments[0] if moments else 0, operation.id
