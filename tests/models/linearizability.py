"""Checker of linearizability: the algorithm of Wing and Gong (1993) with memory of states (Lowe, 2017).

A history is linearizable if each operation can take effect at a moment between its call and its return, so
that a sequential model gives the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, TypeVar

S = TypeVar("S", bound=Hashable)
UNKNOWN: Final = object()
"""Result of an operation whose caller got none: it may have taken effect, or will, or never does."""


@dataclass
class RecordedCall:
    """One operation of a history. `returned` is infinite while the result is unknown."""

    operation: object
    called: float
    returned: float = inf
    result: object = UNKNOWN


@dataclass(frozen=True)
class Checker(Generic[S]):
    """Checker against a model: `step(state, operation)` returns the next state and the result."""

    initial: S
    step: Callable[[S, object], tuple[S, object]]

    def explains(self, history: Sequence[RecordedCall]) -> bool:
        """Return whether the model explains the history."""
        calls = sorted(history, key=lambda call: call.called)
        required = sum(1 << index for index, call in enumerate(calls) if call.returned < inf)
        pending = [(0, self.initial)]
        visited = set(pending)
        while pending:
            done, state = pending.pop()
            if done & required == required:
                return True
            deadline = min(call.returned for index, call in enumerate(calls) if not done >> index & 1)
            for index, call in enumerate(calls):
                if call.called > deadline:
                    break
                if done >> index & 1:
                    continue
                following, result = self.step(state, call.operation)
                if call.result is UNKNOWN or call.result == result:
                    found = (done | 1 << index, following)
                    if found not in visited:
                        visited.add(found)
                        pending.append(found)
        return False
