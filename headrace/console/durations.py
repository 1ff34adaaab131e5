"""Lengths of time as people write them on a command line."""

from __future__ import annotations

import re
from typing import Final

from mirror.errors import InvalidRequest

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    """A length of time such as 90s, 10m, 6h, 2d in ms. Raises InvalidRequest."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise InvalidRequest(f"{text!r} is no length of time", advice="write it as 90s, 10m, 6h or 2d")
    return int(float(found[1]) * _UNITS[found[2]])
