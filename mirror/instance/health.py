"""Health of this instance. If a thread ends unexpectedly, its part stays unhealthy and the instance stops."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """Condition reported by one part."""

    is_well: bool
    sentence: str


class Health:
    """Conditions of all parts. Thread-safe: the parts report; REST and the service read the conditions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conditions: dict[str, HealthCondition] = {}
        self._died = threading.Event()

    def report(self, part: str, is_well: bool, sentence: str) -> None:
        """Replace the condition of a part."""
        with self._lock:
            self._conditions[part] = HealthCondition(is_well, sentence)

    def forget(self, part: str) -> None:
        """Remove a part for which this instance is no longer responsible."""
        with self._lock:
            self._conditions.pop(part, None)

    def died(self, part: str, error: BaseException) -> None:
        """Report that a thread ended unexpectedly; the service must stop."""
        self.report(part, False, f"died: {type(error).__name__}: {error}")
        self._died.set()

    @property
    def has_died(self) -> threading.Event:
        """Event that is set when a part died."""
        return self._died

    def conditions(self) -> Mapping[str, HealthCondition]:
        """Return a copy of the latest condition of every part."""
        with self._lock:
            return dict(self._conditions)

    @property
    def is_well(self) -> bool:
        """True if every part is healthy."""
        return all(condition.is_well for condition in self.conditions().values())
