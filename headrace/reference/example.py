"""A configuration file to begin with, generated from the settings classes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from headrace.reference.of_settings import Section, default_of, meaning_of, sections, toml_text
from headrace.settings import DEFAULT_CLUSTERS

_WIDTH: Final = 100
_CLUSTERS: Final = "clusters.NAME"
_HEAD: Final = """\
# Settings of Headrace: headrace serve --config THIS-FILE (or HEADRACE_CONFIG, or ./headrace.toml).
# Every key is here with its default and its meaning, behind a comment sign: remove that of a key to set it.
# headrace config check says whether the file is right, headrace config show where each value comes from.
"""


def example_settings() -> str:
    """TOML that sets nothing but the clusters. What stands behind a single `#` is a key with its default, or
    a table."""
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
            yield from _comment(meaning_of(field).replace("\\|", "|"))
            yield f"#{name} = {_value(field)}"
        yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)


def _value(field: FieldInfo) -> str:
    """The default; of a key that has none, or a secret one, an empty text to be filled in."""
    value: Any = None if field.is_required() else default_of(field)
    if value is None or isinstance(value, SecretStr):
        return '""'
    return "{}" if value == {} else toml_text(value)
