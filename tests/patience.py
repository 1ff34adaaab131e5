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

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str = "", *, interval_seconds: float = 0.05) -> T:
    """The first truthy answer of `condition`."""
    return waiting.wait_until(condition, PATIENCE_SECONDS, what, interval_seconds=interval_seconds)


def eventually(ask: Callable[[], Any], what: str) -> Any:
    """The same where an error that may pass counts as not yet."""
    return wait_until(unless_it_may_pass(ask), what)
