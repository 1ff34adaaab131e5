"""Polling until a condition is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirror.errors import HeadraceError

_FIRST_SECONDS: Final = 0.2
_MOST_SECONDS: Final = 2.0


def unmet_at_deadline(
    look: Callable[[], str], timeout_seconds: float, sleep: Callable[[float], None] | None = None
) -> str:
    """Poll `look` until it returns an empty string, and return that; on timeout, return its latest text.
    Retriable errors, such as an unreachable instance, are retried; other errors of `look` are raised."""
    import tenacity

    lacking = ""

    def is_met() -> bool:
        nonlocal lacking
        try:
            lacking = look()
        except HeadraceError as error:
            if not error.retriable:
                raise
            lacking = str(error)
        return not lacking

    asking = tenacity.Retrying(
        sleep=sleep or tenacity.nap.sleep,
        stop=tenacity.stop_after_delay(timeout_seconds),
        wait=tenacity.wait_exponential(multiplier=_FIRST_SECONDS, max=_MOST_SECONDS),
        retry=tenacity.retry_if_result(lambda met: not met),
        retry_error_callback=lambda _: False,
    )
    asking(is_met)
    return lacking
