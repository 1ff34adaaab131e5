"""Formats numbers with nouns and units. The web pages have the same functions in `lib/format.js`."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from itertools import islice
from typing import Final

_STEPS: Final = ("", "k", "M", "G", "T", "P")
_UNKNOWN: Final = "unknown"


def counted(number: int, singular: str, plural: str = "", *, form: str = "") -> str:
    """Return a number with a noun that agrees with it: `1 task`, `2 tasks`, `1 part is well`.

    plural: noun for any number other than 1, if appending an s is wrong. form: format specification of the
    number.
    """
    return f"{number:{form}} {singular if number == 1 else plural or f'{singular}s'}"


def first_few(texts: Collection[str], most: int = 5, separator: str = ", ") -> str:
    """Return at most `most` of the texts and the number of the rest: `a, b and 3 more`."""
    named = separator.join(islice(texts, most))
    return f"{named} and {len(texts) - most} more" if len(texts) > most else named


def with_place(place: object, reason: str) -> str:
    """Return a reason with the place in front, unless the reason names the place: `t-0: paused`."""
    is_named = re.search(rf"(?<![\w.-]){re.escape(str(place))}(?![\w-])", reason)
    return reason if is_named else f"{place}: {reason}"


def rate_text(bytes_per_second: float | None) -> str:
    """Format a rate with a power-of-1000 unit: `950 B/s`, `1.2 MB/s`; `unknown` for None."""
    return _UNKNOWN if bytes_per_second is None else _scaled(bytes_per_second, "B/s")


def size_text(size_bytes: float | None) -> str:
    """Format a size with a power-of-1000 unit: `950 B`, `1.2 MB`; `unknown` for None."""
    return _UNKNOWN if size_bytes is None else _scaled(size_bytes, "B")


def duration_text(seconds: float | None) -> str:
    """Format a duration with a suitable unit: `35 ms`, `9.5 s`, `40 min`, `7 d`; `unknown` for None."""
    if seconds is None:
        return _UNKNOWN
    if seconds < 0.9995:
        return f"{_rounded(seconds * 1_000)} ms"
    if seconds < 99.5:
        return f"{_digits(seconds)} s"
    if seconds < 5_400:
        return f"{_rounded(seconds / 60)} min"
    return f"{_rounded(seconds / 3_600)} h" if seconds < 172_800 else f"{_rounded(seconds / 86_400)} d"


def exact_duration_text(milliseconds: int) -> str:
    """Format a configured duration without rounding: `800 ms`, `2 s`, `1.25 s`."""
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.12g} s"


def _scaled(value: float, unit: str) -> str:
    step = 0
    while value >= 999.5 and step < len(_STEPS) - 1:
        value, step = value / 1_000, step + 1
    return f"{_digits(value) if step else _rounded(value)} {_STEPS[step]}{unit}"


def _digits(value: float) -> str:
    return f"{_rounded(value * 10) / 10:g}" if value < 9.95 else str(_rounded(value))


def _rounded(value: float) -> int:
    """Round to the nearest integer, halves up, as JavaScript's `Math.round` does."""
    return math.floor(value + 0.5)


def clock_text(moment_ms: int) -> str:
    """Return the time of day in UTC: `21:38:05 UTC`."""
    seconds = moment_ms // 1000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"
