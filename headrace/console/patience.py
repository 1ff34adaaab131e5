"""Polls until a condition is met or a timeout passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from mirror.errors import HeadraceError

_FIRST_SECONDS: Final = 0.2
_MOST_SECONDS: Final = 2.0
_T = TypeVar("_T")


def pause(seconds: float) -> None:
    """Wait for `seconds`. A signal handler that raises ends the wait."""
    threading.Event().wait(seconds)


def poll_until(
    poll: Callable[[], _T],
    is_over: Callable[[_T], bool],
    timeout_seconds: float,
    sleep: Callable[[float], None] | None = None,
) -> _T:
    """Call `poll` at growing intervals until `is_over` is true for its result or the timeout passes.

    Returns the latest result.
    """
    until, wait = time.monotonic() + timeout_seconds, _FIRST_SECONDS
    while not is_over(found := poll()) and time.monotonic() < until:
        (sleep or pause)(wait)
        wait = min(wait * 2, _MOST_SECONDS)
    return found


def unmet_at_deadline(
    poll: Callable[[], str], timeout_seconds: float, sleep: Callable[[float], None] | None = None
) -> str:
    """Call `poll` until it returns an empty text or the timeout passes. Return the last text.

    After a retriable error, such as an unreachable instance, polling continues. Other errors are raised.
    """

    def lacking() -> str:
        try:
            return poll()
        except HeadraceError as error:
            if not error.retriable:
                raise
            return str(error)

    return poll_until(lacking, lambda text: not text, timeout_seconds, sleep)
