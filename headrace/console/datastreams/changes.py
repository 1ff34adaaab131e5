"""Prints dry runs: the effects of changing a datastream, and plans of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.console.terminal import console, print_table
from mirror.model.datastreams.pauses import moment_text
from mirror.wording import counted, rate_text

_LANES: Final = (
    ("starts", "would start"),
    ("stops", "would stop"),
    ("moves", "would move"),
    ("restarts", "would restart in place"),
)
_BACKLOG: Final = {"starts": ("backlog_records",)}
_COSTS: Final = (
    (("starts",), "started_bytes_per_second", "would be copied in addition"),
    (("moves", "restarts"), "interrupted_bytes_per_second", "would pause briefly"),
)


def _rows(changes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a table row for each change or, for a new definition, for each of its fields."""
    rows: list[Mapping[str, Any]] = []
    for change in changes:
        is_new = change["before"] is None and isinstance(change["after"], Mapping)
        rows += _leaves(change["after"], change["field"]) if is_new else [change]
    return rows


def _leaves(value: object, pointer: str) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        return [row for key, inner in value.items() for row in _leaves(inner, f"{pointer}/{key}")]
    return [] if value is None or value in ("", []) else [{"field": pointer, "after": value}]


def print_update_plan(answer: Mapping[str, Any], would: str = "would change") -> None:
    """Print the changes and effects that a dry run reports. `would`: verb for the title."""
    if not answer["changes"]:
        console().print(f"{answer['name']}: nothing would change")
        return
    print_table(f"{answer['name']} {would}", ["field", "before", "after"], _rows(answer["changes"]))
    _print_effects(answer)


def print_move_plan(answer: Mapping[str, Any]) -> None:
    """Print the effects of a dry run of a move."""
    console().print(f"{answer['name']}:")
    _print_effects(answer)


def _print_effects(answer: Mapping[str, Any]) -> None:
    console().print(f"tasks: {answer['tasks_before']} now, {answer['tasks_after']} afterwards")
    for field, description in _LANES:
        lanes = answer[field]
        if lanes:
            columns = ["partition", "from_task", "to_task", "from_instance", "to_instance"]
            columns += ["rate", *_BACKLOG.get(field, ()), "reason"]
            rows = [{**lane, "rate": rate_text(lane["bytes_per_second"])} for lane in lanes]
            print_table(f"{counted(len(lanes), 'partition')} {description}", columns, rows)
    if not any(answer[field] for field, _ in _LANES):
        console().print("no partition starts, stops or moves")
    for fields, key, description in _COSTS:
        if any(answer[field] for field in fields):
            rate = answer.get(key)
            console().print(f"{'an unknown rate' if rate is None else rate_text(rate)} {description}")
    print_tasks(answer)
    if answer["starts"]:
        waiting = answer.get("started_backlog_records")
        wait = "record waits", "records wait"
        many = f"an unknown number of {wait[1]}" if waiting is None else counted(waiting, *wait)
        console().print(f"{many} at the source")
    for why in answer["reasons"]:
        console().print(f"- {why}")


def print_proposal(answer: Mapping[str, Any]) -> None:
    """Print a stored plan, and whether it can still be applied."""
    out = console()
    out.print(f"plan {answer['id']} of {answer['datastream']}: {answer['sentence']}")
    for why in answer["reasons"]:
        out.print(f"- {why}")
    print_tasks(answer)
    _print_moves(answer)
    if answer["asked_by"] is not None:
        out.print(f"{answer['asked_by']} has requested to apply it")
    elif answer["changed"]:
        out.print(f"the plan is outdated: {'; '.join(answer['changed'])}")
    else:
        until = moment_text(answer["expires_ms"])
        out.print(f"valid until {until}; apply it with headrace datastream apply-plan {answer['id']}")


def print_tasks(answer: Mapping[str, Any]) -> None:
    """Print the tasks that a plan adds or removes, if the instance reports them. Older instances do not."""
    if answer.get("task_changes"):
        print_table("tasks", ["task", "change", "reason"], answer["task_changes"])


def _print_moves(answer: Mapping[str, Any]) -> None:
    if not answer["moves"]:
        console().print("no partition changes its task or instance")
        return
    columns = ["partition", "from_task", "to_task", "from_instance", "to_instance", "reason"]
    print_table(f"{counted(len(answer['moves']), 'partition')} would move", columns, answer["moves"])
    moved = answer["moved"]
    console().print(f"{'an unknown rate' if moved is None else rate_text(moved)} would move")
