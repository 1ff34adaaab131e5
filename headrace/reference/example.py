"""An example settings file, generated from the settings classes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from headrace.reference.sections import Section, default_of, sections, toml_text
from headrace.settings import DEFAULT_CLUSTERS

_WIDTH: Final = 100
_CLUSTERS: Final = "clusters.NAME"
_HEAD: Final = """\
# Settings of Headrace: headrace serve --config THIS-FILE (or HEADRACE_CONFIG, or ./headrace.toml).
# Every key is listed with its meaning and, commented out, its default; uncomment a key to set it.
# `headrace config check` validates the file, `headrace config show` lists the origin of each value.
"""


def example_settings() -> str:
    """Return a settings file (TOML) that sets only the clusters.

    All other tables and keys are commented out, with their defaults.
    """
    return "\n".join([_HEAD, *_clusters(), *(line for section in sections() for line in _lines(section))])


def _clusters() -> Iterator[str]:
    for alias, cluster in DEFAULT_CLUSTERS.items():
        yield f"[clusters.{alias}]"
        yield from (f"{key} = {toml_text(value)}" for key, value in cluster.items())
        yield ""


def _lines(section: Section) -> Iterator[str]:
    if section.keys:
        yield from _comment(section.meaning)
        yield f"#[{section.path}]"
        for name, field in section.keys.items():
            yield from _comment(section.meanings.get(name, ""))
            yield f"#{name} = {_value(field)}"
        yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)


def _value(field: FieldInfo) -> str:
    """Return the default value of a key as TOML, empty for a secret or a key without a default."""
    value: Any = None if field.is_required() else default_of(field)
    if value is None or isinstance(value, SecretStr):
        return '""'
    return "{}" if value == {} else toml_text(value)
