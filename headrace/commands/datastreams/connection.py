"""Completes names of datastreams on the command line, and prints datastreams."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

from headrace.commands.calls import connect
from headrace.console.terminal import console, print_json

_COMPLETED: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
"""Matches names without characters of shell syntax.

Only these names are completed, because other names could inject a shell command.
"""
_COMPLETION_SECONDS: Final = 1.0


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of datastreams that start with `incomplete`; empty if no service responds in time."""
    from headrace.console.resources import DATASTREAMS
    from mirror.errors import HeadraceError

    try:
        at, config = ctx.params.get("at") or "", ctx.params.get("config")
        client = connect(at, config, _COMPLETION_SECONDS, looks_up=False)
        names = [str(datastream["name"]) for datastream in client.get(DATASTREAMS)]
    except HeadraceError:
        return []
    return [name for name in names if name.startswith(incomplete) and _COMPLETED.fullmatch(name)]


NameArgument = Annotated[str, typer.Argument(help="Name of the datastream.", autocompletion=complete_name)]


def show_outcome(answer: dict[str, Any], *, as_json: bool, dry_run: bool) -> None:
    """Print the updated datastream, or the changes that a dry run reports."""
    from headrace.console.datastreams.changes import print_update_plan

    if dry_run and not as_json:
        print_update_plan(answer)
    else:
        show(answer, as_json)


def show(datastream: dict[str, Any], as_json: bool) -> None:
    """Print name and status of a datastream, or the whole document as JSON."""
    if as_json:
        print_json(datastream)
    else:
        console().print(f"{datastream['name']}: {datastream['status']}")
