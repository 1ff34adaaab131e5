"""Rules of `promtool check metrics` for names and types, as published by Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_BASE: Final = {
    "milliseconds": "seconds",
    "microseconds": "seconds",
    "nanoseconds": "seconds",
    "minutes": "seconds",
    "hours": "seconds",
    "days": "seconds",
    "bits": "bytes",
    "kilobytes": "bytes",
    "megabytes": "bytes",
    "gigabytes": "bytes",
    "percent": "ratio",
}
_SHORT: Final = frozenset({"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"})
_TYPES: Final = frozenset({"gauge", "counter", "summary", "histogram"})


def complaints(name: str, kind: str, text: str) -> Iterator[str]:
    """Yield violations of the conventions. `name` as in samples: a counter includes `_total`."""
    words = name.split("_")
    if not text:
        yield "no help text"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield "not in snake case"
    if (kind == "counter") != (words[-1] == "total"):
        yield "counters, and only counters, end with _total"
    if words[-1] in ("bucket", "count", "sum") or (words[-1] == "info" and kind != "gauge"):
        yield f"_{words[-1]} is reserved for other types"
    for word in words:
        if word in _TYPES:
            yield f"the name contains the type {word}"
        if word in _SHORT:
            yield f"{word} abbreviates a unit"
        if word in _BASE:
            yield f"use {_BASE[word]} instead of {word}"
