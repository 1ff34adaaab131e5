"""Predicted saving of a rebalance, in seconds of breach, compared with its cost. Pure.

The saving is the remaining time of the breach, times the share of the overload that the rebalance removes
from the most loaded task. The remaining time is estimated from past breaches of the datastream without a
rebalance that lasted longer than the current breach so far: it is their median duration, minus the current
duration. The cost is one pause for each moved partition. A rebalance that saves less than one pause is not
worthwhile. If the saving is unknown, the rebalance is permitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mirror.coordination.monitors.effect import PlacementEffect
from mirror.wording import duration_text, rate_text

PAUSE_SECONDS: Final = 1.0
"""Maximum pause of a moved partition in seconds, equal to the target of the mirror."""


@dataclass(frozen=True, slots=True)
class PastBreach:
    """Duration of an incident, and whether a rebalance was requested during it."""

    seconds: float
    was_helped: bool


@dataclass(frozen=True, slots=True)
class PredictedSaving:
    """Predicted saving of a rebalance.

    `saved_seconds`: None if unknown. `sentence`: description that continues "the rebalance ...".
    `left_seconds`: predicted remaining time of the breach without a rebalance, None if unknown.
    """

    saved_seconds: float | None
    sentence: str
    left_seconds: float | None = None

    @property
    def is_worth_it(self) -> bool:
        """True unless the rebalance is known to cost more than it saves."""
        return self.saved_seconds is None or self.saved_seconds >= PAUSE_SECONDS


def worth_of(effect: PlacementEffect, past: Sequence[PastBreach], open_seconds: float) -> PredictedSaving:
    """Compute the predicted saving. `past`: past breaches of the datastream. `open_seconds`: time for which
    the current breach has lasted."""
    carried = f", of partitions that carry {rate_text(effect.moved)}" if effect.moved is not None else ""
    costs = f"costs {effect.partitions} pauses of at most {duration_text(PAUSE_SECONDS)}{carried}"
    alone = [breach.seconds for breach in past if not breach.was_helped and breach.seconds > open_seconds]
    if not alone:
        unknown = "saves an unknown time, because no past breach without action lasted longer"
        return PredictedSaving(None, f"{unknown}; {costs}")
    relief = _relief(effect)
    if relief is None:
        unknown = "saves an unknown time, because no relief of the fullest task is predicted"
        return PredictedSaving(None, f"{unknown}; {costs}")
    lasts = median(alone)
    saved = max(0.0, (lasts - open_seconds) * relief)
    return PredictedSaving(
        saved,
        f"saves about {duration_text(saved)} of breach: {duration_text(lasts)} (median of {len(alone)}"
        f" without action) minus {duration_text(open_seconds)} so far, times {relief:.0%} of the fullest"
        f" task's overload, as it would carry {rate_text(effect.fullest_after)} instead of"
        f" {rate_text(effect.fullest_before)}; {costs}",
        lasts - open_seconds,
    )


def _relief(effect: PlacementEffect) -> float | None:
    """Return the share of the overload that the rebalance removes, or None if unknown.

    The share is unknown, for example, if the rebalance only moves tasks to other instances.
    """
    before, after = effect.fullest_before, effect.fullest_after
    if before is None or after is None or after >= before:
        return None
    return 1.0 if effect.overloaded_after == 0 else (before - after) / before
