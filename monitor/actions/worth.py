"""What a rebalance is predicted to save, in seconds of breach, against what it costs. Pure.

What is saved is what is left of the breach: how long breaches of the datastream lasted that nothing was done
about (their median, of those that lasted longer than this one has so far), less how long this one has lasted,
times the part of the fullest task's overload that goes; all of it, where no task is overloaded afterwards.
What it costs is a pause for each partition that moves. Without the rebalance each of these is late for as
long as the breach lasts, so that it is not worth it where less is saved than one pause takes. What is not
known is said to be, and speaks against nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mirror.coordination.acting.effect import PlacementEffect
from mirror.wording import rate_text

PAUSE_SECONDS: Final = 1.0
"""Of a partition that moves, at most, as the mirror has it for its target."""


@dataclass(frozen=True, slots=True)
class PastBreach:
    """How long an incident lasted, and whether a rebalance was asked for in it."""

    seconds: float
    was_helped: bool


@dataclass(frozen=True, slots=True)
class Worth:
    """`saved_seconds` None: not known. `sentence`: behind "it". `left_seconds`: for how long the breach would
    still last if nothing were done; None: not known."""

    saved_seconds: float | None
    sentence: str
    left_seconds: float | None = None

    @property
    def is_worth_it(self) -> bool:
        """Whether it is not known to cost more than it saves."""
        return self.saved_seconds is None or self.saved_seconds >= PAUSE_SECONDS


def worth_of(effect: PlacementEffect, past: Sequence[PastBreach], open_seconds: float) -> Worth:
    """`past`: breaches of the datastream that are over; `open_seconds`: how long this one has lasted."""
    carried = f", of partitions that carry {rate_text(effect.moved)}" if effect.moved is not None else ""
    costs = f"costs {effect.partitions} pauses of at most {PAUSE_SECONDS:g} s{carried}"
    alone = [one.seconds for one in past if not one.was_helped and one.seconds > open_seconds]
    if not alone:
        unknown = "saves an unknown time, as no longer breach is remembered that nothing was done about"
        return Worth(None, f"{unknown}; {costs}")
    relief = _relief(effect)
    if relief is None:
        unknown = "saves an unknown time, as the fullest task is not known to carry less then"
        return Worth(None, f"{unknown}; {costs}")
    lasts = median(alone)
    saved = max(0.0, (lasts - open_seconds) * relief)
    return Worth(
        saved,
        f"saves about {saved:.0f} s of breach: {lasts:.0f} s (median of {len(alone)} that nothing was done"
        f" about) less {open_seconds:.0f} s that it has lasted, times {relief:.0%} of the fullest task's"
        f" overload, as it would carry {rate_text(effect.fullest_after)} instead of"
        f" {rate_text(effect.fullest_before)}; {costs}",
        lasts - open_seconds,
    )


def _relief(effect: PlacementEffect) -> float | None:
    """The part of the overload that goes; None: not known, as where tasks only change their instance."""
    before, after = effect.fullest_before, effect.fullest_after
    if before is None or after is None or after >= before:
        return None
    return 1.0 if effect.overloaded_after == 0 else (before - after) / before
