"""The rules of `promtool check metrics` for names and types, as Prometheus publishes them."""

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
    """What is against the conventions. `name` as samples have it, a counter with its `_total`."""
    words = name.split("_")
    if not text:
        yield "no help text"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        yield "not in snake case"
    if (kind == "counter") != (words[-1] == "total"):
        yield "a counter ends with _total, and nothing else does"
    if words[-1] in ("bucket", "count", "sum") or (words[-1] == "info" and kind != "gauge"):
        yield f"_{words[-1]} is kept for other types"
    for word in words:
        if word in _TYPES:
            yield f"the type {word} is no part of a name"
        if word in _SHORT:
            yield f"{word} abbreviates a unit"
        if word in _BASE:
            yield f"use {_BASE[word]} instead of {word}"
