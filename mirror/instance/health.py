"""Health of this instance.

If a thread ends unexpectedly, its component remains unhealthy, and the instance stops.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """Health of one component."""

    is_well: bool
    sentence: str


class Health:
    """Health of all components of this instance. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conditions: dict[str, HealthCondition] = {}
        self._died = threading.Event()

    def report(self, part: str, is_well: bool, sentence: str) -> None:
        """Set the health of a component."""
        with self._lock:
            self._conditions[part] = HealthCondition(is_well, sentence)

    def forget(self, part: str) -> None:
        """Remove a component for which this instance is no longer responsible."""
        with self._lock:
            self._conditions.pop(part, None)

    def died(self, part: str, error: BaseException) -> None:
        """Report that the thread of a component ended unexpectedly. The service must stop."""
        self.report(part, False, f"died: {type(error).__name__}: {error}")
        self._died.set()

    @property
    def has_died(self) -> threading.Event:
        """Event that is set when a thread has ended unexpectedly."""
        return self._died

    def conditions(self) -> Mapping[str, HealthCondition]:
        """Return the latest health of every component."""
        with self._lock:
            return dict(self._conditions)

    @property
    def is_well(self) -> bool:
        """Return whether every component is healthy."""
        return all(condition.is_well for condition in self.conditions().values())
