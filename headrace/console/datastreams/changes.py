"""What a change of a datastream would do, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.console.terminal import console, print_table

_LANES: Final = (
    ("starts", "would start"),
    ("stops", "would stop"),
    ("moves", "would move"),
    ("restarts", "would begin again where they are"),
)


def print_update_plan(answer: Mapping[str, Any]) -> None:
    """What a dry run found."""
    if not answer["changes"]:
        console().print(f"{answer['name']}: nothing would change")
        return
    print_table(f"{answer['name']} would change", ["field", "before", "after"], answer["changes"])
    console().print(f"tasks: {answer['tasks_before']} now, {answer['tasks_after']} then")
    for field, what in _LANES:
        lanes = answer[field]
        if lanes:
            columns = ["partition", "from_task", "to_task", "from_instance", "to_instance", "reason"]
            print_table(f"{len(lanes)} partitions {what}", columns, lanes)
    if not any(answer[field] for field, _ in _LANES):
        console().print("no partition would start, stop or move")
    for why in answer["reasons"]:
        console().print(f"- {why}")
