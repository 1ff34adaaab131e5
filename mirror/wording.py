"""Numbers with their nouns, for sentences that people read."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


def counted(number: int, one: str, several: str = "", *, form: str = "") -> str:
    """`1 task`, `2 tasks`, `1 part is well`: a number with the words that agree with it.

    several: the words for any other number than 1, of nouns that do not take an s alone or with a verb.
    form: how the number is written, as a format specification.
    """
    return f"{number:{form}} {one if number == 1 else several or f'{one}s'}"


def first_few(texts: Collection[str], most: int, separator: str = ", ") -> str:
    """`a, b and 3 more`: not more than `most` of the texts, and how many there are beyond."""
    named = separator.join(islice(texts, most))
    return f"{named} and {len(texts) - most} more" if len(texts) > most else named
