"""Prints the output of commands, for users and programs.

All output of commands goes through this module. The module never interprets output as markup, and it escapes
control characters.
"""

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
"""Environment variables that make Rich treat a pipe as a terminal."""
_CONTINUED: Final = "\n  "
_BETWEEN: Final = 2
"""Number of terminal cells between two columns."""
_NARROWEST: Final = 24
"""Minimum width of a folded column in cells.

If the table is still too wide, each row is printed as a record.
"""
_TERMINAL_SECONDS: Final = 0.2
_FILE_SECONDS: Final = 5.0
_NOTHING: Final = "-"
"""Text of an empty table cell in a pipe, so that every line has the same number of fields."""

Lines = list[str]


class Terminal:
    """Prints text verbatim to stdout or stderr.

    Brackets such as `[a-z]+` are not interpreted as markup, and `:warning:` is not replaced with an emoji.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self._is_stderr = stderr

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(stderr=self._is_stderr, highlight=False, markup=False, emoji=False)

    @cached_property
    def _is_terminal(self) -> bool:
        """True if the stream is a terminal according to Rich, which is imported only if the stream may be
        one."""
        may_be = self._stream.isatty() or any(map(os.environ.get, _MAKE_A_TERMINAL))
        return may_be and self._console.is_terminal

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self._is_stderr else sys.stdout

    @property
    def width(self) -> int:
        """Width of the terminal in cells."""
        return self._console.width

    def print(self, text: str = "", **how: Any) -> None:
        """Print one line.

        On a terminal, the line is wrapped between words. `how`: options of `rich.console.Console.print`.
        """
        if self._is_terminal:
            self._console.print(visible(text), **{"soft_wrap": False, **how})
        else:
            self._stream.write(visible(text) + how.get("end", "\n"))
            self._stream.flush()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table.

        A cell of None is empty. A list is printed with one line per item. Cells are never truncated. If the
        table is too wide for the terminal, columns are folded. If columns would become illegible, each row is
        printed as a record of `column value` lines. A pipe or a file always receives a heading and one line
        per row.
        """
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
    """Return the minimum width of a legible table in cells.

    A column needs the width of its widest line, at most that of a folded column.
    """
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
    return [visible(str(text)) for text in texts] or [""]


class StatusLine:
    """Line on stderr that shows progress, and is overwritten by the next one.

    On a terminal, one line is rewritten in place. In a pipe or a file, a new line is printed every few
    seconds. `since`: start of the work in seconds (any clock). The first line appears one interval later.
    """

    def __init__(self, since: float = -math.inf) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._seconds = _TERMINAL_SECONDS if self._is_terminal else _FILE_SECONDS
        self._next = since + self._seconds
        self._is_shown = False

    def is_due(self, now: float) -> bool:
        """Return whether it is time for the next progress line. If so, the following one is due after an
        interval."""
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

    def show(self, parts: Sequence[str]) -> None:
        """Print the progress line, composed of these parts.

        Pass the most important parts first. Parts that do not fit on the terminal are omitted.
        """
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
        """End the progress line, also after a failure, so that the error starts on a new line."""
        self.end()

    def end(self) -> None:
        """End the progress line."""
        if self._is_terminal and self._is_shown:
            note("")


def fitting(parts: Sequence[str], room: int) -> str:
    """Join the first texts, as many as fit into a line of `room` cells.

    If the first part does not fit, it is truncated.
    """
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if cell_len(longer) > room:
            break
        text = longer
    return text or set_cell_size(parts[0], room)


def console() -> Terminal:
    """Return the terminal for results (stdout)."""
    return Terminal()


def error_console() -> Terminal:
    """Return the terminal for errors and progress (stderr)."""
    return Terminal(stderr=True)


def complain(message: str) -> None:
    """Print an error on stderr. Further lines of the message are indented."""
    first, *further = message.split(_CONTINUED)
    out = error_console()
    for line in (f"headrace: {first}", *(f"  {sentence}" for sentence in further)):
        out.print(line, soft_wrap=True)


def note(text: str, **how: Any) -> None:
    """Print a progress message on stderr.

    Write errors, such as a closed terminal or a full disk, are ignored. `how`: options of `Terminal.print`.
    """
    with suppress(OSError):
        error_console().print(text, **how)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print a JSON document on stdout."""
    _write(json_text(value, indent))


def print_yaml(documents: Iterable[object], *, several: bool = False) -> None:
    """Print YAML on stdout. `several`: start each document with `---`."""
    from headrace.console.documents import yaml_text

    _write(yaml_text(documents, several=several))


def print_text(text: str) -> None:
    """Print a text of several lines on stdout without wrapping."""
    _write(visible_lines(text))


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # report a full disk as an error of the command, not at interpreter exit


def print_table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table. `columns`: keys of the rows to print, in order."""
    names = [column.replace("_", " ") for column in columns]
    console().table(title, names, [[row.get(column) for column in columns] for row in rows])


def time_text(at_ms: int | None, missing: str) -> str:
    """Format a time (epoch ms) as `2026-11-21T08:00:00+00:00`. `missing`: text if `at_ms` is None."""
    from datetime import UTC, datetime

    if at_ms is None:
        return missing
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")
