"""Waits for the end of an operation, for `--wait`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.patience import unmet_at_deadline
from headrace.console.terminal import note
from mirror.errors import TimedOut

_OVER: Final = frozenset({"done", "failed"})
FAILED: Final = "failed"


def wait_for_end(
    client: RestClient, location: str, timeout_seconds: float, *, sleep: Callable[[float], None] | None = None
) -> Mapping[str, Any]:
    """Poll an operation until it has ended, report its progress on stderr, and return it.

    Raises TimedOut with the operation, which continues.
    """
    known: Mapping[str, Any] = {}

    def poll() -> str:
        nonlocal known
        before, known = known, client.get(location)
        text = f"{known['kind']} of {known['datastream']} is {known['state']}: {known['sentence']}"
        if known["state"] in _OVER:
            return ""
        if known != before:
            note(text)
        return text

    lacking = unmet_at_deadline(poll, timeout_seconds, sleep)
    if lacking:
        raise TimedOut(
            f"operation not finished after {timeout_seconds:g} s: {lacking}",
            advice=f"the operation continues; check its progress with GET {location}",
        )
    return known
