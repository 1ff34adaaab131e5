"""Test that the configuration reference covers every key, and that durations and sizes have a unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import get_args

from pydantic import BaseModel

from headrace.settings import HeadraceSettings
from headrace_dev.reference.of_settings import settings_reference

REFERENCE = settings_reference()
"""Settings are checked in loops: a test of each would be a twentieth of all tests."""


def keys(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the section and key of every setting with a value."""
    for name, field in model.model_fields.items():
        inner = [one for one in (field.annotation, *get_args(field.annotation)) if _is_model(one)]
        if not inner:
            yield path, name
        else:
            is_mapping = str(field.annotation).startswith("dict")
            below = f"{path}.{name}" if path else name
            yield from keys(inner[0], f"{below}.NAME" if is_mapping else below)


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


@cache
def sections() -> dict[str, str]:
    parts = re.split(r"^## `\[(.+)\]`$", REFERENCE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_key_is_in_its_section_with_a_meaning() -> None:
    meanings = {(section, key): cells(section, key)[-1] for section, key in keys(HeadraceSettings)}
    assert len(meanings) > 300
    assert [one for one, meaning in meanings.items() if "|" in meaning or len(meaning) <= 5] == []


QUANTITIES = re.compile(r"(timeout|interval|delay|deadline|window|cooldown|retention|size|memory|limit)")
UNITS = re.compile(
    r"_(seconds|ms|hours|days|bytes|percent|per_second|limit)$|_bytes_|_messages_|bytes|driver_memory"
)


def test_a_duration_or_size_says_its_unit() -> None:
    quantities = [
        (section, key)
        for section, key in keys(HeadraceSettings)
        if QUANTITIES.search(key) and kind_of(section, key) not in ("true or false", "list of text")
    ]
    assert quantities
    assert [one for one in quantities if not UNITS.search(one[1])] == []


def kind_of(section: str, key: str) -> str:
    """Return the type printed in the reference."""
    return cells(section, key)[1]


def cells(section: str, key: str) -> list[str]:
    """Return the cells in the row of a key: name, type, default, meaning."""
    row = next(line for line in sections()[section].splitlines() if line.startswith(f"| `{key}` |"))
    return row.strip("| ").split(" | ")


def test_no_secret_default_is_printed() -> None:
    assert "**********" not in REFERENCE


def test_types_and_defaults_are_written_as_in_the_file() -> None:
    for section, key, kind, default in (
        ("mirror.leader", "load_provider", "text", '`"self"`'),
        ("mirror.leader", "task_capacity_messages_per_second", "whole number", "unset"),
        ("mirror.copying", "merge_small_batches", "true or false", "`true`"),
        ("pmp.provider", "statistic", '`"mean"`, `"p95"`, `"max"`', '`"p95"`'),
        ("clusters.NAME.security", "password", "text, secret", "empty"),
        ("pinot", "retention_days", "table", "empty"),
    ):
        assert cells(section, key)[1:3] == [kind, default], key
