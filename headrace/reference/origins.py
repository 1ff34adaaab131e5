"""Finds out whether each setting comes from the environment, the file, or a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from headrace.console.access.document import PREFIX


class SettingOrigin(StrEnum):
    """Source of a setting's value (environment, file or default), in the order of precedence."""

    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class Setting(NamedTuple):
    """Full name of a setting, its effective value, and the source of that value."""

    key: str
    value: Any
    origin: SettingOrigin


def origins(
    effective: Mapping[str, Any], document: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Setting]:
    """Yield every setting of `effective` with the source of its value.

    `document`: content of the settings file. `environment`: environment variables. An empty table counts as
    one setting.
    """
    names = {name.upper() for name in environment}
    for path, value in _leaves(effective, ()):
        yield Setting(".".join(path), value, _origin(path, document, names))


def _origin(path: tuple[str, ...], document: Mapping[str, Any], variables: set[str]) -> SettingOrigin:
    beginnings = [path[:length] for length in range(1, len(path) + 1)]
    if any(f"{PREFIX}{'__'.join(beginning)}".upper() in variables for beginning in beginnings):
        return SettingOrigin.ENVIRONMENT
    inner: Any = document
    for name in path:
        if not isinstance(inner, Mapping) or name not in inner:
            return SettingOrigin.DEFAULT
        inner = inner[name]
    return SettingOrigin.FILE


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, value
