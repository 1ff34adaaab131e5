"""Long work that somebody asked for, as any instance sees it: under way, or over for at most a day."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.control.handlers import Control
from mirror.coordination.operations.operation import (
    OPERATION_ID,
    Operation,
    OperationState,
    halting,
    waiting,
)
from mirror.coordination.operations.outcome_store import OutcomeStore
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.stores.requests import RequestQueue
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.ports import Clock


class Operations:
    """Reads only. For any thread."""

    def __init__(
        self, control: Control, requests: RequestQueue, outcomes: OutcomeStore, clock: Clock
    ) -> None:
        self._control = control
        self._requests = requests
        self._outcomes = outcomes
        self._clock = clock

    def all(self) -> tuple[Operation, ...]:
        """The newest first."""
        return tuple(sorted(self._known(self._control.list()).values(), key=_moment_of, reverse=True))

    def get(self, identity: str) -> Operation:
        """One that any instance has acknowledged, as it is now. Raises NotFound."""
        if OPERATION_ID.fullmatch(identity):
            found = self._look(identity, self._control.list())
            if found is None:  # what another instance has written may not have been told here yet
                self._control.catch_up()
                found = self._look(identity, self._control.list_again())
            if found is not None:
                return found
        raise NotFound(
            f"there is no operation {shown(identity)}", advice="what became of one is kept for a day"
        )

    def _look(self, identity: str, definitions: Definitions) -> Operation | None:
        """A stop is also known by what has stopped, for as long as that lasts."""
        known = self._known(definitions).get(identity)
        if known is not None or not identity.startswith("s"):
            return known
        halts = (halting(one) for one in definitions.datastreams)
        return next((one for one in halts if one is not None and one.identity == identity), None)

    def _known(self, definitions: Definitions) -> Mapping[str, Operation]:
        """By id. What ends an operation is one transaction, and what is under way is read first: none that
        ends meanwhile is missed."""
        halts = (halting(one) for one in definitions.datastreams)
        running = [one for one in halts if one is not None and one.state is OperationState.RUNNING]
        queued = [waiting(one) for one in self._requests.waiting()]
        over = self._outcomes.newest(self._clock.now_ms())
        found = {one.identity: one for one in (*reversed(over), *queued, *running)}
        return {identity: one for identity, one in found.items() if OPERATION_ID.fullmatch(identity)}


def _moment_of(operation: Operation) -> tuple[bool, int, str]:
    """What has no moment is still under way."""
    moments = [one for one in (operation.created_ms, operation.finished_ms) if one is not None]
    return not moments, moments[0] if moments else 0, operation.identity
