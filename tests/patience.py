"""How long tests wait for what must come.

One length for all of them, far beyond what a slow and busy machine needs: how long something takes is for
bench/ to say, a test's wait only tells a hang from an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from headrace.console.client import unless_it_may_pass
from stack import wait as waiting

PATIENCE_SECONDS: Final = 600.0
_SHORTEST_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 0.5

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str = "", *, interval_seconds: float | None = None) -> T:
    """The first truthy answer of `condition`.

    Without an interval it is asked again after 50 ms, and less often when it takes long to answer or has been
    asked for long: asking takes processor time from what is waited for. What may soon be over needs one.
    """
    if interval_seconds is not None:
        return waiting.wait_until(condition, PATIENCE_SECONDS, what, interval_seconds=interval_seconds)
    return waiting.wait_until(_seldom(condition), PATIENCE_SECONDS, what, interval_seconds=_SHORTEST_SECONDS)


def pause_seconds(answer_seconds: float, waited_seconds: float) -> float:
    """Before it is asked again: a fifth of the time goes into asking, unless an answer takes very long, and a
    wait becomes longer by a twentieth."""
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, 4 * answer_seconds, waited_seconds / 20))


def eventually(ask: Callable[[], Any], what: str) -> Any:
    """The same where an error that may pass counts as not yet."""
    return wait_until(unless_it_may_pass(ask), what)


def _seldom(condition: Callable[[], T]) -> Callable[[], T]:
    began = time.monotonic()
    pause = _SHORTEST_SECONDS

    @wraps(condition, updated=())
    def ask() -> T:
        nonlocal pause
        time.sleep(pause - _SHORTEST_SECONDS)
        asked = time.monotonic()
        answer = condition()
        answered = time.monotonic()
        pause = pause_seconds(answered - asked, answered - began)
        return answer

    return ask
