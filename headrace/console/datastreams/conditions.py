"""What `headrace datastream wait` waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.resources import Condition
from mirror.errors import HeadraceError, NotFound, TimedOut

_FIRST_SECONDS: Final = 0.2
_MOST_SECONDS: Final = 2.0
_SHOWN: Final = 3
_COPYING: Final = "copying"
_PERSON: Final = "person"


def wait_until(
    client: RestClient,
    path: str,
    condition: Condition,
    timeout_seconds: float,
    *,
    most_lag: int = 0,
    sleep: Callable[[float], None] | None = None,
) -> None:
    """Ask until it is so. An instance that does not answer for a while is asked again.

    Raises NotFound where it is not waited for, TimedOut that says what is lacking.
    """
    import tenacity

    lacking = ""

    def is_met() -> bool:
        nonlocal lacking
        try:
            lacking = what_lacks(client, path, condition, most_lag)
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
    )
    try:
        asking(is_met)
    except tenacity.RetryError as error:
        raise TimedOut(f"not {condition} after {timeout_seconds:g} s: {lacking}") from error


def what_lacks(client: RestClient, path: str, condition: Condition, most_lag: int) -> str:
    """A sentence; empty where the condition is met. Raises what `RestClient.get` raises."""
    if condition is Condition.DELETED:
        try:
            return f"it is {client.get(path)['status']}"
        except NotFound:
            return ""
    found = client.get(path)
    status, problem = str(found["status"]), found.get("problem")
    if condition is Condition.STOPPED:
        return "" if status == "STOPPED" else f"it is {status}"
    if problem and problem["sets_aside"]:
        return f"it is set aside: {problem['reason']}"
    if status != "READY":
        return f"it is {status}"
    if condition is Condition.READY:
        return ""
    return _what_lags(client.get(f"{path}/lag"), most_lag if condition is Condition.CAUGHT_UP else None)


def _what_lags(found: Mapping[str, Any], most_lag: int | None) -> str:
    """`most_lag`: None: whatever it is."""
    if not found["is_complete"]:
        return f"not heard: {', '.join(found['silent_instances']) or 'a leader'}"
    partitions = found["partitions"]
    if not partitions:
        return "it has no partitions yet"
    idle = [one for one in partitions if one["state"] != _COPYING and one["by"] != _PERSON]
    if idle:
        return _named(idle, lambda one: f"{one['state']}: {one['reason']}" if one["reason"] else one["state"])
    copied = [one for one in partitions if one["state"] == _COPYING]
    if not copied:
        return "somebody has paused all its partitions"
    if most_lag is None:
        return ""
    behind = [one for one in partitions if one["lag_records"] is None or one["lag_records"] > most_lag]
    return _named(behind, _lag) if behind else ""


def _lag(one: Mapping[str, Any]) -> str:
    if one["lag_records"] is None:
        return "its lag is not known"
    return f"{one['lag_records']} records behind"


def _named(rows: Iterable[Mapping[str, Any]], what: Callable[[Mapping[str, Any]], str]) -> str:
    texts = [f"{one['topic']}-{one['partition']} {what(one)}" for one in rows]
    further = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {further} more" if further > 0 else "")
