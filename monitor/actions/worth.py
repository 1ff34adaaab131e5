"""Predicted saving of a rebalance, in seconds of breach, compared with its cost. Pure.

The saving is the remaining time of the breach times the fraction of the fullest task's overload that
disappears (100 % if no task is overloaded afterwards). The remaining time is the median duration of past
breaches of the datastream without action, among those longer than this one so far, minus the time that this
one has lasted. The cost is a pause of each partition that moves. Without the rebalance, each of these is late
as long as the breach lasts, so a rebalance is not worthwhile if it saves less than one pause. Unknown values
are reported as such and do not prevent a rebalance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mirror.coordination.acting.effect import PlacementEffect
from mirror.wording import duration_text, rate_text

PAUSE_SECONDS: Final = 1.0
"""Longest pause of a partition that moves; the mirror has the same target."""


@dataclass(frozen=True, slots=True)
class PastBreach:
    """Duration of an incident, and whether a rebalance was requested during it."""

    seconds: float
    was_helped: bool


@dataclass(frozen=True, slots=True)
class PredictedSaving:
    """Predicted saving. `saved_seconds`: None if unknown. `sentence`: predicate for the subject "it".
    `left_seconds`: predicted remaining time of the breach without action; None if unknown."""

    saved_seconds: float | None
    sentence: str
    left_seconds: float | None = None

    @property
    def is_worth_it(self) -> bool:
        """True unless it is known to cost more than it saves."""
        return self.saved_seconds is None or self.saved_seconds >= PAUSE_SECONDS


def worth_of(effect: PlacementEffect, past: Sequence[PastBreach], open_seconds: float) -> PredictedSaving:
    """Compute the predicted saving. `past`: past breaches of the datastream; `open_seconds`: duration of the
    present one so far."""
    carried = f", of partitions that carry {rate_text(effect.moved)}" if effect.moved is not None else ""
    costs = f"costs {effect.partitions} pauses of at most {duration_text(PAUSE_SECONDS)}{carried}"
    alone = [one.seconds for one in past if not one.was_helped and one.seconds > open_seconds]
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
    """Return the fraction of the overload that disappears; None if unknown, for example if tasks only change
    their instance."""
    before, after = effect.fullest_before, effect.fullest_after
    if before is None or after is None or after >= before:
        return None
    return 1.0 if effect.overloaded_after == 0 else (before - after) / before
