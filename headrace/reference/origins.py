"""Where the value of each setting comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from headrace.console.access.document import PREFIX


class Origin(StrEnum):
    """In the order in which they win."""

    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Setting(NamedTuple):
    """A key by its full name, what is in force, and who says so."""

    key: str
    value: Any
    origin: Origin


def origins(
    effective: Mapping[str, Any], document: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Setting]:
    """Every key of `effective`, which `document` (of the file) and variables of the environment may have set.
    A table that is empty is one key."""
    names = {name.upper() for name in environment}
    for path, value in _leaves(effective, ()):
        yield Setting(".".join(path), value, _origin(path, document, names))


def _origin(path: tuple[str, ...], document: Mapping[str, Any], variables: set[str]) -> Origin:
    beginnings = [path[:length] for length in range(1, len(path) + 1)]
    if any(f"{PREFIX}{'__'.join(one)}".upper() in variables for one in beginnings):
        return Origin.ENVIRONMENT
    inner: Any = document
    for name in path:
        if not isinstance(inner, Mapping) or name not in inner:
            return Origin.DEFAULT
        inner = inner[name]
    return Origin.FILE


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, value
