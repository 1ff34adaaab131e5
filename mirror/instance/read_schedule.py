"""Times at which an instance reads the plan and the definitions after changes."""

from __future__ import annotations

from typing import Final

from mirror.ports import Clock

_RESTS: Final = 4
"""Minimum pause between two reads of the definitions, as a multiple of the duration of a read, so that
constant changes leave most of the CPU time for REST."""
_LONGEST_REST_SECONDS: Final = 0.25


class ReadSchedule:
    """Postpones reads while changes are frequent. A change of the plan is read at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Make a read due now."""
        self._is_stale, self._is_plan_new, self._is_put_off = True, False, False
        self._began = self._rests_until = 0.0

    def changed(self, *, now: bool = False) -> None:
        """Note that the definitions may have changed. `now`: do not postpone the next read."""
        self._is_stale = True
        if now:
            self._rests_until = 0.0

    def plan_changed(self) -> None:
        """Note a new plan. Called by a watch, from any thread."""
        self._is_plan_new = True

    @property
    def due_in(self) -> float | None:
        """Seconds until a postponed read is due; None if no read is postponed."""
        return max(0.0, self._rests_until - self._clock.monotonic()) if self._is_put_off else None

    def begin(self) -> bool:
        """Return whether a read is due now. If so, the caller reads, and then calls `end`."""
        self._began = self._clock.monotonic()
        self._is_put_off = self._is_stale and not self._is_plan_new and self._began < self._rests_until
        if not self._is_stale or self._is_put_off:
            return False
        self._is_stale, self._is_plan_new, self._rests_until = False, False, 0.0
        return True

    def end(self) -> None:
        """Note the end of a successful read. After a failed read, the next one is not postponed."""
        now = self._clock.monotonic()
        self._rests_until = now + min(_RESTS * (now - self._began), _LONGEST_REST_SECONDS)
