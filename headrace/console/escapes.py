"""Text from outside as a terminal may have it: names, reasons, problems, what servers say of themselves.

A terminal obeys more than it shows: escape sequences recolour, erase and rewrite what was printed before,
bidirectional overrides turn a name around, a line break begins a line that looks like the command's own.
"""

from __future__ import annotations

import json


def visible(text: str) -> str:
    """The text on one line, with everything that is not to be seen as its escape: control and format
    characters, halves of surrogate pairs, line breaks, blanks other than the plain one."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def visible_lines(text: str) -> str:
    """The same of a text whose line feeds are its own."""
    return "\n".join(map(visible, text.split("\n")))


def json_text(value: object, indent: int | None = 2) -> str:
    """JSON in which what is not to be seen is escaped, so that it is the same to a program."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
