"""Numbers with their nouns, for sentences that people read."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "", *, form: str = "") -> str:
    """`1 task`, `2 tasks`, `1 part is well`: a number with the words that agree with it.

    several: the words for any other number than 1, of nouns that do not take an s alone or with a verb.
    form: how the number is written, as a format specification.
    """
    return f"{number:{form}} {one if number == 1 else several or f'{one}s'}"
