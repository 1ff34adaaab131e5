"""Timeout of waits in tests.

All waits share one timeout, far longer than a slow and busy machine needs: benchmarks measure durations, a
test's wait only distinguishes a hang from a response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.console.client import unless_it_may_pass
from stack.process import wait as waiting

PATIENCE_SECONDS: Final = 600.0
_SHORTEST_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 0.5

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str = "", *, interval_seconds: float | None = None) -> T:
    """Return the first truthy result of `condition`.

    Without an interval it is polled every 50 ms, and less often if it is slow or the wait is long, since
    polling takes CPU time from the awaited work. Waits for short-lived states need an interval.
    """
    pace = pause_seconds if interval_seconds is None else interval_seconds
    return waiting.wait_until(condition, PATIENCE_SECONDS, what, interval_seconds=pace)


def pause_seconds(answer_seconds: float, waited_seconds: float) -> float:
    """Return the pause before the next poll.

    Polling takes a fifth of the time unless it is very slow, and lengthens a wait by at most a twentieth.
    """
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, 4 * answer_seconds, waited_seconds / 20))


def eventually(ask: Callable[[], Any], what: str) -> Any:
    """Wait like `wait_until`, treating transient errors as not ready."""
    return wait_until(unless_it_may_pass(ask), what)
