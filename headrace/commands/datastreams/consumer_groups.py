"""`headrace groups list`, `lag` and `explain`: consumer groups whose positions are copied to the
destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.commands.calls import connect
from headrace.commands.datastreams.connection import NameArgument
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.resources import age_text, path_of, path_of_consumer_group
from headrace.console.terminal import console, print_json, print_table
from mirror.wording import counted

app = CommandGroup(no_args_is_help=True)
GroupArgument = Annotated[str, typer.Argument(help="Name of the consumer group.")]


@app.command("list")
def list_groups(
    name: NameArgument, at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show each group, and why its positions are not copied."""
    found = connect(at, config).get(f"{path_of(name)}/consumer-groups")
    if as_json:
        print_json(found)
        return
    rows = [
        {
            "group": group["group"],
            "type": group["kind"],
            "follows": "yes" if group["follows"] else "no",
            "positions": f"{_followed(group)} of {len(group['positions'])}",
            "reason": "; ".join([*group["reasons"], *_remarks(group)]),
        }
        for group in found["groups"]
    ]
    print_table(f"consumer groups of {name}", ["group", "type", "follows", "positions", "reason"], rows)
    _show_age(found)


@app.command()
def lag(
    name: NameArgument, at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show the positions of all groups on both clusters."""
    found = connect(at, config).get(f"{path_of(name)}/consumer-groups")
    if as_json:
        print_json(found)
        return
    rows = [{"group": group["group"], **row} for group in found["groups"] for row in _positions(group)]
    columns = ["group", "partition", "offset", "to", "to_offset", "exact", "reason"]
    print_table(f"positions of {counted(len(found['groups']), 'group')}", columns, rows)
    _show_age(found)


@app.command()
def explain(
    name: NameArgument,
    group: GroupArgument,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show whether the positions of a group are copied to the destination, and if not, why."""
    found = connect(at, config).get(path_of_consumer_group(name, group))
    if as_json:
        print_json(found)
        return
    columns = ["partition", "offset", "to", "to_offset", "exact", "reason"]
    print_table(f"group {group}", columns, _positions(found))
    if found["follows"]:
        console().print("follows")
    else:
        console().print(f"does not follow: {'; '.join(found['reasons'])}")
    for remark in _remarks(found):
        console().print(remark)


def _remarks(group: dict[str, Any]) -> list[str]:
    """Return the error message of a group, and other remarks."""
    remarks = [group["detail"]] if group["detail"] else []
    if group["may_redeliver"] and group["follows"]:
        remarks.append("may receive records after its position again")
    return remarks


def _positions(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each position."""
    return [
        {
            "partition": f"{position['topic']}-{position['partition']}",
            "offset": position["offset"],
            "to": f"{position['to_topic']}-{position['partition']}",
            "to_offset": position["to_offset"],
            "exact": "yes" if position["is_exact"] else "no",
            "reason": position["reason"],
        }
        for position in group["positions"]
    ]


def _show_age(found: dict[str, Any]) -> None:
    """Print how long ago the groups were synchronised."""
    if found["round_ms"] is None:
        console().print("not synchronised yet: check the option groups and the health of the leader")
    else:
        console().print(f"synchronised {age_text(found['age_ms'])} ago")


def _followed(group: Mapping[str, Any]) -> int:
    return sum(position["follows"] for position in group["positions"])
