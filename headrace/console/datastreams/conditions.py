"""What `headrace datastream wait` waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.patience import what_still_lacks
from headrace.console.resources import Condition, path_of
from mirror.errors import HeadraceError, NotFound, TimedOut
from mirror.wording import counted, first_few

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
    lacking = what_still_lacks(lambda: what_lacks(client, path, condition, most_lag), timeout_seconds, sleep)
    if lacking:
        raise TimedOut(f"not {condition} after {timeout_seconds:g} s: {lacking}")


def still_there(client: RestClient, names: Iterable[str], timeout_seconds: float) -> dict[str, str]:
    """Those that are not gone when the time is over, which is for all together, with the reason."""
    end, found = time.monotonic() + timeout_seconds, {}
    for name in names:
        left = max(0.0, end - time.monotonic())
        try:
            wait_until(client, path_of(name), Condition.DELETED, left)
        except HeadraceError as error:
            found[name] = str(error)
    return found


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
    return f"{counted(one['lag_records'], 'record')} behind"


def _named(rows: Iterable[Mapping[str, Any]], what: Callable[[Mapping[str, Any]], str]) -> str:
    return first_few([f"{one['topic']}-{one['partition']} {what(one)}" for one in rows], _SHOWN, "; ")
