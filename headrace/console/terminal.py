"""How commands talk to a person or to a program. Whatever a command prints goes through here: nothing of it
is markup, and nothing of it reaches the terminal as a command."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.cells import cell_len, set_cell_size

from headrace.console.escapes import json_text, visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MAKE_A_TERMINAL: Final = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which Rich takes a pipe for a terminal."""
_CONTINUED: Final = "\n  "
_BETWEEN: Final = 2
"""Cells between two columns."""
_NARROWEST: Final = 24
"""Cells to which the columns of a table may be folded; where even that is too wide, each row is a record."""
_TERMINAL_SECONDS: Final = 0.2
_FILE_SECONDS: Final = 5.0
_NOTHING: Final = "-"
"""What an empty cell is in a pipe, so that every line has as many fields."""

Lines = list[str]


class Terminal:
    """Prints lines. Text is shown as it is: brackets of an expression such as `[a-z]+` are no markup, and
    `:warning:` is no picture."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._is_stderr = stderr

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(stderr=self._is_stderr, highlight=False, markup=False, emoji=False)

    @cached_property
    def _is_terminal(self) -> bool:
        """Rich, which knows more of terminals, is imported only where there may be one."""
        may_be = self._stream.isatty() or any(map(os.environ.get, _MAKE_A_TERMINAL))
        return may_be and self._console.is_terminal

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self._is_stderr else sys.stdout

    @property
    def width(self) -> int:
        """Cells of a line."""
        return self._console.width

    def print(self, text: str = "", **how: Any) -> None:
        """One line; a terminal wraps it between words, a pipe or a file gets it whole. `how`: options of
        `rich.console.Console.print`."""
        if self._is_terminal:
            self._console.print(visible(text), **{"soft_wrap": False, **how})
        else:
            self._stream.write(visible(text) + how.get("end", "\n"))
            self._stream.flush()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Cells by row; None is an empty one, a list has a line for each of its texts.

        Nothing of a cell is cut off: columns that are too wide for the terminal are folded, and where that
        would not be legible each row is a record of `column: value` lines. A pipe or a file gets a line for
        each row, and a heading, whatever their width."""
        cells = [[_cell(value) for value in row] for row in rows]
        if not self._is_terminal:
            self._plain(title, columns, cells)
        elif _least_width(columns, cells) <= self._console.width:
            self._console.print(_folded(title, columns, cells))
        else:
            self._records(title, columns, cells)

    def _plain(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[Lines]]) -> None:
        self.print(title)
        heading = [column.upper().replace(" ", "_") for column in columns]
        lines = [heading, *([", ".join(cell) or _NOTHING for cell in row] for row in cells)]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = (text + " " * (width - cell_len(text)) for text, width in zip(line, widths, strict=True))
            self.print((" " * _BETWEEN).join(padded).rstrip())

    def _records(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[Lines]]) -> None:
        self.print(title)
        widest = max(map(cell_len, columns))
        for row in cells:
            self.print("-" * min(widest, self._console.width))
            for column, cell in zip(columns, row, strict=True):
                name = column + " " * (widest - cell_len(column))
                for text in cell if any(cell) else ():
                    self.print(f"{name}  {text}", soft_wrap=True)


def _least_width(columns: Sequence[str], cells: Sequence[Sequence[Lines]]) -> int:
    """Cells that a legible table needs: each column its widest line, or what it may be folded to."""
    widest = [
        max([cell_len(name), *(cell_len(text) for row in cells for text in row[number])])
        for number, name in enumerate(columns)
    ]
    return sum(min(width, _NARROWEST) + _BETWEEN for width in widest)


def _folded(title: str, columns: Sequence[str], cells: Sequence[Sequence[Lines]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=visible(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(visible(column), overflow="fold")
    for row in cells:
        table.add_row(*("\n".join(cell) for cell in row))
    return table


def _cell(value: object) -> Lines:
    texts = value if isinstance(value, list | tuple) else ["" if value is None else value]
    return [visible(str(one)) for one in texts] or [""]


class StatusLine:
    """One line on stderr about work that goes on: rewritten on a terminal and never wider than it, a new one
    every few seconds elsewhere. `since`: when the work began (any clock, seconds); nothing is said before the
    first interval after it is over."""

    def __init__(self, since: float = -math.inf) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._seconds = _TERMINAL_SECONDS if self._is_terminal else _FILE_SECONDS
        self._next = since + self._seconds
        self._is_shown = False

    def is_due(self, now: float) -> bool:
        """Whether it is time for another line; the one that is asked for then is the last for a while."""
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    def show(self, parts: Sequence[str]) -> None:
        """Parts of the line, the most important first: those that a terminal has no room for are left out."""
        self._is_shown = True
        if not self._is_terminal:
            note(", ".join(parts), soft_wrap=True)
            return
        room = error_console().width - 1
        text = fitting(parts, room)
        note(text + " " * (room - cell_len(text)), end="\r", overflow="ignore", no_wrap=True, crop=False)

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the line, also where the work fails: what is said of that has a line of its own."""
        self.end()

    def end(self) -> None:
        """Leave the line."""
        if self._is_terminal and self._is_shown:
            note("")


def fitting(parts: Sequence[str], room: int) -> str:
    """The parts from the first on that fit into `room` cells; the first alone is cut off."""
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if cell_len(longer) > room:
            break
        text = longer
    return text or set_cell_size(parts[0], room)


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
