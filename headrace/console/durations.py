"""Parses durations on the command line."""

from __future__ import annotations

import re
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.wording import counted

HOUR_MS: Final = 3_600_000
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR_MS, "d": 24 * HOUR_MS}
_CENTURY_MS: Final = 36_500 * 24 * HOUR_MS
_LENGTH: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) *(ms|s|m|h|d)")


def milliseconds(text: str, longest_ms: int = _CENTURY_MS) -> int:
    """Parse a duration such as 90s, 10m, 6h or 2d, and return it in milliseconds.

    Raises InvalidRequest if the duration is invalid, below one millisecond or above `longest_ms`, which must
    be whole hours.
    """
    found = _LENGTH.fullmatch(text.strip())
    length_ms = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if length_ms < 1:
        raise InvalidRequest(f"invalid duration {shown(text)}", advice="examples: 90s, 10m, 6h, 2d")
    if length_ms > longest_ms:
        days, hours = divmod(longest_ms // HOUR_MS, 24)
        most = counted(hours, "hour") if hours else counted(days, "day", form=",")
        raise InvalidRequest(f"duration {shown(text)} is too long", advice=f"the maximum is {most}")
    return length_ms


def duration_seconds(text: str, longest_ms: int = _CENTURY_MS) -> float:
    """Parse a duration such as 90s, 10m, 6h or 2d, and return it in seconds. Errors as in `milliseconds`."""
    return milliseconds(text, longest_ms) / 1_000
