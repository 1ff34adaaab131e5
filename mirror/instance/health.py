"""Is this instance well? Red is sticky for threads that died, and it stops the group."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """What one part says of itself."""

    is_well: bool
    sentence: str


class Health:
    """Thread-safe; parts report, REST and the service read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conditions: dict[str, Condition] = {}
        self._died = threading.Event()

    def report(self, part: str, is_well: bool, sentence: str) -> None:
        """Replace what the part said before."""
        with self._lock:
            self._conditions[part] = Condition(is_well, sentence)

    def forget(self, part: str) -> None:
        """The part is not ours any more."""
        with self._lock:
            self._conditions.pop(part, None)

    def died(self, part: str, error: BaseException) -> None:
        """A thread ended that should not have; the service must stop."""
        self.report(part, False, f"died: {type(error).__name__}: {error}")
        self._died.set()

    @property
    def has_died(self) -> threading.Event:
        """Set when a part died."""
        return self._died

    def conditions(self) -> Mapping[str, Condition]:
        """A copy of what every part said last."""
        with self._lock:
            return dict(self._conditions)

    @property
    def is_well(self) -> bool:
        """Whether every part is."""
        return all(condition.is_well for condition in self.conditions().values())
