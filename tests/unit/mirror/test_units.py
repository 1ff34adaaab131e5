"""Test the formatting of numbers with units in commands, messages and web pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from mirror.wording import duration_text, exact_duration_text, rate_text, size_text

SHOWN: Final = json.loads((Path(__file__).parents[2] / "data/units.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("value", "text"), SHOWN["rate"])
def test_rates_and_sizes(value: float | None, text: str) -> None:
    assert rate_text(value) == text
    assert size_text(value) == text.removesuffix("/s")


@pytest.mark.parametrize(("value", "text"), SHOWN["duration"])
def test_durations(value: float | None, text: str) -> None:
    assert duration_text(value) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(1, "1 ms"), (800, "800 ms"), (2_000, "2 s"), (90_001, "90.001 s")]
)
def test_what_was_configured_is_not_rounded(milliseconds: int, text: str) -> None:
    assert exact_duration_text(milliseconds) == text
