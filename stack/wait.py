"""Waits until a condition holds; the error names the last answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from stack.errors import Cancelled, NotInTime

T = TypeVar("T")
Pace = Callable[[float, float], float]
"""Seconds until it is asked again, of the seconds that the answer took and those since the beginning."""


def wait_until(
    condition: Callable[[], T],
    timeout_seconds: float,
    what: str = "",
    *,
    interval_seconds: float | Pace = 0.05,
    cancelled: threading.Event | None = None,
) -> T:
    """Ask `condition` until its answer is truthy, and return that answer.

    It is asked at least once and once more at the deadline. What it raises is not caught. Raises
    NotInTime with `what` and the last answer, and Cancelled as soon as the event is set.
    """
    pause = cancelled or threading.Event()
    began = time.monotonic()
    deadline = began + timeout_seconds
    while True:
        asked = time.monotonic()
        late = asked >= deadline
        answer = condition()
        answered = time.monotonic()
        if answer:
            return answer
        if late:
            name = what or getattr(condition, "__qualname__", "the condition")
            raise NotInTime(f"{name}: not within {timeout_seconds:g} s; last seen: {answer!r}")
        wanted = (
            interval_seconds(answered - asked, answered - began)
            if callable(interval_seconds)
            else interval_seconds
        )
        if pause.wait(min(wanted, max(0.0, deadline - time.monotonic()))):
            raise Cancelled(f"{what or 'waiting'}: given up")
