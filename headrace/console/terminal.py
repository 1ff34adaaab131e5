"""How commands talk to a person or to a program. Whatever a command prints goes through here: nothing of it
is markup, and nothing of it reaches the terminal as a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from headrace.console.escapes import json_text, visible, visible_lines

_CONTINUED: Final = "\n  "


class Terminal:
    """Prints lines. Text is shown as it is: brackets of an expression such as `[a-z]+` are no markup, and
    `:warning:` is no picture."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)

    def print(self, text: str = "", **how: Any) -> None:
        """One line. `how`: options of `rich.console.Console.print`."""
        self._console.print(visible(text), **how)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Cells by row; None is an empty one, a list has a line for each of its texts."""
        table = Table(title=visible(title), title_justify="left")
        for column in columns:
            table.add_column(visible(column))
        for row in rows:
            table.add_row(*map(_cell, row))
        self._console.print(table)


def _cell(value: object) -> str:
    lines = value if isinstance(value, list | tuple) else ["" if value is None else value]
    return "\n".join(visible(str(one)) for one in lines)


def console() -> Terminal:
    """Where answers go."""
    return Terminal()


def error_console() -> Terminal:
    """Where problems and progress go."""
    return Terminal(stderr=True)


def complain(message: str) -> None:
    """Say on stderr why the command fails. Lines of the message that are indented belong to it."""
    first, *further = message.split(_CONTINUED)
    out = error_console()
    for line in (f"headrace: {first}", *(f"  {one}" for one in further)):
        out.print(line, soft_wrap=True)


def note(text: str, **how: Any) -> None:
    """Say on stderr how work goes on. A terminal that has gone, or a log on a full disk, does not end the
    work: it is not what was asked for. `how`: options of `Terminal.print`."""
    with suppress(OSError):
        error_console().print(text, **how)


def print_json(value: object, indent: int | None = 2) -> None:
    """One JSON document on stdout, for programs."""
    _write(json_text(value, indent))


def print_yaml(documents: Iterable[object], *, several: bool = False) -> None:
    """YAML on stdout, for files; each of `several` documents begins with `---`."""
    from headrace.console.documents import yaml_text

    _write(yaml_text(documents, several=several))


def print_text(text: str) -> None:
    """A text of several lines on stdout, whatever the width of the terminal."""
    _write(visible_lines(text))


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # a full disk is an error of the command, not of the interpreter's end


def print_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table for a person; columns are keys of the rows."""
    names = [column.replace("_", " ") for column in columns]
    console().table(title, names, [[row.get(column) for column in columns] for row in rows])
