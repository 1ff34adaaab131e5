"""Escapes untrusted text for terminals, such as names, reasons and messages of servers.

Escape sequences could recolour, erase or rewrite earlier output, bidirectional overrides could reverse a
name, and a line break could start a line that looks like output of the command.
"""

from __future__ import annotations

import json


def visible(text: str) -> str:
    """Return a text as one line, in which invisible characters are escaped.

    Invisible characters are control and format characters, lone surrogates, line breaks, and whitespace other
    than the plain space.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def visible_lines(text: str) -> str:
    """Escape each line of a text that may contain line feeds."""
    return "\n".join(map(visible, text.split("\n")))


def json_text(value: object, indent: int | None = 2) -> str:
    """Serialize a value as JSON in which invisible characters are written as JSON escapes."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        character if character == "\n" or character.isprintable() else json.dumps(character)[1:-1]
        for character in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
