"""Test the estimate of the time that a rebalance saves and costs."""

from __future__ import annotations

import re

import pytest

from mirror.coordination.monitors.effect import PlacementEffect
from monitor.actions import PastBreach, worth_of

ALONE = [PastBreach(seconds, was_helped=False) for seconds in (100.0, 400.0, 700.0)]
HELPED = [PastBreach(5.0, was_helped=True)] * 9
EFFECT = PlacementEffect(2, 210_000.0, 420_000.0, 210_000.0)


@pytest.mark.parametrize(
    ("effect", "past", "lasted", "saved"),
    [
        (EFFECT, [*ALONE, *HELPED], 50.0, 350.0),
        (EFFECT, ALONE, 150.0, 400.0),  # breaches shorter than 150 s do not count
        (EFFECT, ALONE, 700.0, None),
        (EFFECT, HELPED, 0.0, None),
        (EFFECT, [], 0.0, None),
        (PlacementEffect(2, 210_000.0, 420_000.0, 315_000.0, 1), ALONE, 0.0, 100.0),
        (PlacementEffect(2, 210_000.0, 420_000.0, 420_000.0), ALONE, 0.0, None),
        (EFFECT, ALONE, 699.5, 0.5),
        (PlacementEffect(2), ALONE, 0.0, None),
    ],
)
def test_what_is_saved_is_what_is_left_of_the_breach(
    effect: PlacementEffect, past: list[PastBreach], lasted: float, saved: float | None
) -> None:
    found = worth_of(effect, past, lasted)
    assert found.saved_seconds == (None if saved is None else pytest.approx(saved))
    assert found.is_worth_it == (saved is None or saved >= 1.0)
    assert re.search(r"\b2 pauses\b.*\b1 s\b", found.sentence)
    if saved is None:
        assert "unknown" in found.sentence


def test_the_sentence_has_the_arithmetic() -> None:
    figures = re.findall(r"\d+ ?(?:s\b|min\b|%|kB/s|pauses)?", worth_of(EFFECT, ALONE, 50.0).sentence)
    saving = ["6 min", "7 min", "3", "50 s", "100%", "210 kB/s", "420 kB/s"]
    assert [one.strip() for one in figures] == [*saving, "2 pauses", "1 s", "210 kB/s"]
