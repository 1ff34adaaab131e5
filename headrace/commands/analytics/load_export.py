"""`headrace loads export`: write recorded loads to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import ConfigOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import complain

app = CommandGroup(no_args_is_help=True)


@app.callback()
def loads() -> None:
    """Export recorded loads of partitions."""


@app.command("export")
def export_loads(
    file: Annotated[Path, typer.Argument(help="CSV file to write, for headrace plan --history.")],
    since: Annotated[str, typer.Option(help="Length of the history, such as 24h or 28d.")] = "28d",
    cluster: Annotated[str, typer.Option(help="Cluster whose loads are exported.")] = "source",
    anonymise: Annotated[bool, typer.Option("--anonymise", help="Omit topic names and dates.")] = False,
    config: ConfigOption = None,
) -> None:
    """Export the hourly load of every partition from Pinot."""
    from random import SystemRandom

    from assigner.what_if.trace import anonymised, lines
    from headrace.console.files import write_file
    from headrace.foresight.replays import from_pinot
    from headrace.settings import load_settings

    hours, notes = from_pinot(load_settings(config), cluster, since)
    for note in notes:
        complain(note)
    write_file(file, "".join(lines(anonymised(hours, SystemRandom()) if anonymise else hours)))
