"""Conditions for which `headrace datastream wait` waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient
from headrace.console.patience import unmet_at_deadline
from headrace.console.resources import WaitCondition, path_of
from mirror.errors import HeadraceError, NotFound, TimedOut
from mirror.wording import counted, first_few

_SHOWN: Final = 3
_COPYING: Final = "copying"
_PERSON: Final = "person"


def wait_until(
    client: RestClient,
    path: str,
    condition: WaitCondition,
    timeout_seconds: float,
    *,
    most_lag: int = 0,
    sleep: Callable[[float], None] | None = None,
) -> None:
    """Poll a datastream until a condition is met. Polling continues while no instance is reachable.

    Raises TimedOut with the unmet requirement. Raises NotFound if the datastream does not exist, unless the
    condition is its deletion.
    """
    lacking = unmet_at_deadline(
        lambda: unmet_condition(client, path, condition, most_lag), timeout_seconds, sleep
    )
    if lacking:
        raise TimedOut(f"condition {condition} not met after {timeout_seconds:g} s: {lacking}")


def remaining_datastreams(client: RestClient, names: Iterable[str], timeout_seconds: float) -> dict[str, str]:
    """Wait until all datastreams are deleted, at most `timeout_seconds` in total. Map each remaining one to
    the reason."""
    end, found = time.monotonic() + timeout_seconds, {}
    for name in names:
        left = max(0.0, end - time.monotonic())
        try:
            wait_until(client, path_of(name), WaitCondition.DELETED, left)
        except HeadraceError as error:
            found[name] = str(error)
    return found


def unmet_condition(client: RestClient, path: str, condition: WaitCondition, most_lag: int) -> str:
    """Explain why a datastream does not meet a condition; empty if it does. Raises the errors of
    `RestClient.get`."""
    if condition is WaitCondition.DELETED:
        try:
            return f"it is {client.get(path)['status']}"
        except NotFound:
            return ""
    found = client.get(path)
    status, problem = str(found["status"]), found.get("problem")
    if condition is WaitCondition.STOPPED:
        return "" if status == "STOPPED" else f"it is {status}"
    if problem and problem["sets_aside"]:
        return f"it is quarantined: {problem['reason']}"
    if status != "READY":
        return f"it is {status}"
    if condition is WaitCondition.READY:
        return ""
    return _lagging_partitions(
        client.get(f"{path}/lag"), most_lag if condition is WaitCondition.CAUGHT_UP else None
    )


def _lagging_partitions(found: Mapping[str, Any], most_lag: int | None) -> str:
    """Explain why partitions do not meet the condition; empty if all do.

    `most_lag`: maximum lag in records; None if the lag does not matter.
    """
    if not found["is_complete"]:
        return f"no response from {', '.join(found['silent_instances']) or 'a leader'}"
    partitions = found["partitions"]
    if not partitions:
        return "it has no partitions yet"
    idle = [
        partition for partition in partitions if partition["state"] != _COPYING and partition["by"] != _PERSON
    ]
    if idle:
        return _named(
            idle,
            lambda partition: (
                f"{partition['state']}: {partition['reason']}" if partition["reason"] else partition["state"]
            ),
        )
    copied = [partition for partition in partitions if partition["state"] == _COPYING]
    if not copied:
        return "all partitions are paused by an operator"
    if most_lag is None:
        return ""
    behind = [
        partition
        for partition in partitions
        if partition["lag_records"] is None or partition["lag_records"] > most_lag
    ]
    return _named(behind, _lag) if behind else ""


def _lag(datastream: Mapping[str, Any]) -> str:
    if datastream["lag_records"] is None:
        return "lag unknown"
    return f"{counted(datastream['lag_records'], 'record')} behind"


def _named(rows: Iterable[Mapping[str, Any]], description: Callable[[Mapping[str, Any]], str]) -> str:
    return first_few([f"{row['topic']}-{row['partition']} {description(row)}" for row in rows], _SHOWN, "; ")
