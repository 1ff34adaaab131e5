"""How commands talk to a person or to a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Where answers go. Text is shown as it is: brackets of an expression such as `[a-z]+` are no markup."""
    return Console(highlight=False, markup=False)


def error_console() -> Console:
    """Where problems and progress go."""
    return Console(stderr=True, highlight=False, markup=False)


def note(text: str, **how: Any) -> None:
    """Say on stderr how work goes on. A terminal that has gone, or a log on a full disk, does not end the
    work: it is not what was asked for. `how`: options of `Console.print`."""
    with suppress(OSError):
        error_console().print(text, **how)


def print_json(value: object) -> None:
    """One JSON document on stdout, for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()  # a full disk is an error of the command, not of the interpreter's end


def print_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table for a person; columns are keys of the rows."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*("" if row.get(column) is None else str(row[column]) for column in columns))
    console().print(table)
