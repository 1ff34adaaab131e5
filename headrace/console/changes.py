"""Changes of a datastream on the command line: made of options, and what one would do, for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.console.terminal import console, print_table
from mirror.errors import InvalidRequest
from mirror.model.datastreams.metadata import OWNER
from mirror.model.datastreams.policy import PREFIX
from mirror.model.documents import merged

_QUOTA: Final = f"{PREFIX}bytes-per-second"
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": ("source", "topics"),
    "exclude": ("source", "exclude"),
    "min_tasks": ("limits", "min_tasks"),
    "max_tasks": ("limits", "max_tasks"),
    "max_partitions_per_task": ("limits", "max_partitions_per_task"),
    "objective_ms": ("objective", "milliseconds"),
    "owner": ("metadata", OWNER),
    "bytes_per_second": ("metadata", _QUOTA),
}
"""Where a definition has what an option gives."""
_UNSET: Final[Mapping[str, tuple[str, ...]]] = {
    "exclude": ("source", "exclude"),
    "max-tasks": ("limits", "max_tasks"),
    "max-partitions-per-task": ("limits", "max_partitions_per_task"),
    "objective-ms": ("objective",),
    "bytes-per-second": ("metadata", _QUOTA),
}
"""Options whose fields may be taken away; any other name is a key of the metadata."""
_LANES: Final = (
    ("starts", "would start"),
    ("stops", "would stop"),
    ("moves", "would move"),
    ("restarts", "would begin again where they are"),
)


def patch_of(options: Mapping[str, Any], pairs: Sequence[str], unset: Sequence[str]) -> dict[str, Any]:
    """A merge patch with what was given: options by their names, None for those that were not; `KEY=VALUE` of
    the metadata; names of what is taken away. Raises InvalidRequest when that is nothing, or no pair."""
    patch: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            given = str(value) if _PLACES[name][0] == "metadata" else value
            patch = merged(patch, _nested(_PLACES[name], given))
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not key or not is_pair:
            raise InvalidRequest(f"--set {pair!r} has no value", advice="write --set KEY=VALUE")
        patch.setdefault("metadata", {})[key] = value
    for name in unset:
        *parents, field = _UNSET.get(name, ("metadata", name))
        level = patch
        for parent in parents:
            level = level.setdefault(parent, {})
        level[field] = None
    if not patch:
        raise InvalidRequest(
            "nothing is to be changed", advice="headrace datastream update --help lists what can"
        )
    return patch


def _nested(place: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = place
    return {first: _nested(rest, value) if rest else value}


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
