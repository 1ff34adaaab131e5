"""What `--wait` waits for: the end of an operation that a command has begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.patience import what_still_lacks
from headrace.console.terminal import note
from mirror.errors import TimedOut

_OVER: Final = frozenset({"done", "failed"})
FAILED: Final = "failed"


def wait_for_end(
    client: RestClient,
    location: str,
    timeout_seconds: float,
    *,
    sleep: Callable[[float], None] | None = None,
) -> Mapping[str, Any]:
    """The operation as it ended, done or failed. How far it is is said on stderr when that changes.

    Raises TimedOut, which names the operation: it is not called off by that.
    """
    known: Mapping[str, Any] = {}

    def look() -> str:
        nonlocal known
        before, known = known, client.get(location)
        told = f"{known['kind']} of {known['datastream']} is {known['state']}: {known['sentence']}"
        if known["state"] in _OVER:
            return ""
        if known != before:
            note(told)
        return told

    lacking = what_still_lacks(look, timeout_seconds, sleep)
    if lacking:
        raise TimedOut(
            f"not over after {timeout_seconds:g} s: {lacking}",
            advice=f"it is not called off; GET {location} says how far it is",
        )
    return known
