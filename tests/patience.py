"""How long tests wait for what must come.

One length for all of them, far beyond what a slow and busy machine needs: how long something takes is for
bench/ to say, a test's wait only tells a hang from an answer.
"""

from __future__ import annotations

from collections.abc import Callable
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
    pace = pause_seconds if interval_seconds is None else interval_seconds
    return waiting.wait_until(condition, PATIENCE_SECONDS, what, interval_seconds=pace)


def pause_seconds(answer_seconds: float, waited_seconds: float) -> float:
    """Before it is asked again: a fifth of the time goes into asking, unless an answer takes very long, and a
    wait becomes longer by a twentieth."""
    return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, 4 * answer_seconds, waited_seconds / 20))


def eventually(ask: Callable[[], Any], what: str) -> Any:
    """The same where an error that may pass counts as not yet."""
    return wait_until(unless_it_may_pass(ask), what)
