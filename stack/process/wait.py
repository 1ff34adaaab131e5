"""Waits for a condition. The error after a timeout contains the last result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from stack.errors import Cancelled, NotInTime

T = TypeVar("T")
Pace = Callable[[float, float], float]
"""Function that returns the seconds until the next check, from the duration of the last one and the time
since the start."""


def wait_until(
    condition: Callable[[], T],
    timeout_seconds: float,
    goal: str = "",
    *,
    interval_seconds: float | Pace = 0.05,
    cancelled: threading.Event | None = None,
) -> T:
    """Check `condition` until its result is truthy, and return that result.

    Checks at least once, and once more at the deadline. Does not catch exceptions of `condition`. Raises
    NotInTime with `goal` and the last result, and Cancelled as soon as the event is set.
    """
    pause = cancelled or threading.Event()
    began = time.monotonic()
    deadline = began + timeout_seconds
    while True:
        asked_at = time.monotonic()
        late = asked_at >= deadline
        answer = condition()
        answered = time.monotonic()
        if answer:
            return answer
        if late:
            name = goal or getattr(condition, "__qualname__", "the condition")
            raise NotInTime(f"{name}: timeout after {timeout_seconds:g} s; last result: {answer!r}")
        wanted = (
            interval_seconds(answered - asked_at, answered - began)
            if callable(interval_seconds)
            else interval_seconds
        )
        if pause.wait(min(wanted, max(0.0, deadline - time.monotonic()))):
            raise Cancelled(f"{goal or 'waiting'}: cancelled by the caller")
