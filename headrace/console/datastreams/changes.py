"""What a change of a datastream would do, for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.console.terminal import console, print_table

_LANES: Final = (
    ("starts", "would start"),
    ("stops", "would stop"),
    ("moves", "would move"),
    ("restarts", "would begin again where they are"),
)
_COSTS: Final = (
    (("starts",), "started_bytes_per_second", "would be copied in addition"),
    (("moves", "restarts"), "interrupted_bytes_per_second", "would stand still for a moment"),
)


def _rows(changes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A definition that is new has a row for each of its fields that is set."""
    rows: list[Mapping[str, Any]] = []
    for one in changes:
        is_new = one["before"] is None and isinstance(one["after"], Mapping)
        rows += _leaves(one["after"], one["field"]) if is_new else [one]
    return rows


def _leaves(value: object, pointer: str) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        return [row for key, one in value.items() for row in _leaves(one, f"{pointer}/{key}")]
    return [] if value is None or value in ("", []) else [{"field": pointer, "after": value}]


def print_update_plan(answer: Mapping[str, Any], would: str = "would change") -> None:
    """What a dry run found. `would`: what is done with the datastream."""
    if not answer["changes"]:
        console().print(f"{answer['name']}: nothing would change")
        return
    print_table(f"{answer['name']} {would}", ["field", "before", "after"], _rows(answer["changes"]))
    console().print(f"tasks: {answer['tasks_before']} now, {answer['tasks_after']} then")
    for field, what in _LANES:
        lanes = answer[field]
        if lanes:
            columns = ["partition", "from_task", "to_task", "from_instance", "to_instance"]
            columns += ["bytes_per_second", "reason"]
            print_table(f"{len(lanes)} partitions {what}", columns, lanes)
    if not any(answer[field] for field, _ in _LANES):
        console().print("no partition would start, stop or move")
    for fields, key, what in _COSTS:
        if any(answer[field] for field in fields):
            rate = answer.get(key)
            console().print(f"{'an unknown rate' if rate is None else f'{rate:.0f} bytes/s'} {what}")
    for why in answer["reasons"]:
        console().print(f"- {why}")
