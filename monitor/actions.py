"""Decides whether to request a rebalance: limits, and the predicted saving compared with the cost. Pure.

A rebalance can be forbidden by the setting `monitor.act`, the switch of the service, a freeze window, a
pending rebalance, the daily limit of the service, or the daily limit of the datastream. These conditions are
checked in this order, and the first that forbids the rebalance is reported. If no condition forbids the
rebalance, the monitor does a dry run, and `decide` evaluates the result. In the mode `observe`, the monitor
reports its decisions without acting. `monitor/rebalances.py` executes decisions.

The saving, in seconds of breach, is the remaining time of the breach, times the share of the overload that
the rebalance removes from the most loaded task. The remaining time is estimated from past breaches of the
datastream without a rebalance that lasted longer than the current breach so far: it is their median duration,
minus the current duration. The cost is one pause for each moved partition. A rebalance that saves less than
one pause is not worthwhile. If the saving is unknown, the rebalance is permitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

from mirror.coordination.monitors.effect import PlacementEffect
from mirror.model.capacity.freeze import FreezeWindow, frozen_by
from mirror.model.datastreams.objectives import Mode
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, duration_text, rate_text

DAY_MS: Final = 24 * 3_600_000
PAUSE_SECONDS: Final = 1.0
"""Maximum pause of a moved partition in seconds, equal to the target of the mirror."""


class RebalanceAction(NamedTuple):
    """A rebalance that a monitor has requested, with the time of the request (epoch ms)."""

    datastream: DatastreamName
    time_ms: int

    def is_of_day(self, now_ms: int) -> bool:
        """Return whether the rebalance counts towards the limits of the last 24 hours. A clock that was far
        ahead at the time of the request does not make it count for longer."""
        return abs(now_ms - self.time_ms) < DAY_MS


@dataclass(frozen=True, slots=True)
class ActingPolicy:
    """Configured limits on the rebalances that monitors request. If `may_act` is False, they request none."""

    may_act: bool = True
    mode: Mode = Mode.ACT
    most_a_day: int = 24
    most_a_day_of_each: int = 8
    freezes: tuple[FreezeWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """Rebalances that monitors have requested, as stored by the service.

    `switched_off`: reason why an operator has forbidden rebalances, or an empty string. `acts`: rebalances
    that any monitor requested in at least the last day. `waiting`: datastream whose requested rebalance has
    no plan yet, or an empty string.
    """

    switched_off: str = ""
    acts: Sequence[RebalanceAction] = ()
    waiting: str = ""

    def acted(self, name: DatastreamName, now_ms: int) -> ActionRecord:
        """Return the record with one more rebalance, and without rebalances older than a day."""
        kept = [act for act in self.acts if act.is_of_day(now_ms)]
        return replace(self, acts=(*kept, RebalanceAction(name, now_ms)))


class ActionOutcome(StrEnum):
    """Result of the monitor's decision about a rebalance."""

    ACTS = "acts"
    WOULD_ACT = "would act"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True)
class ActionDecision:
    """The monitor's decision about a rebalance, with its reason."""

    outcome: ActionOutcome
    sentence: str


@dataclass(frozen=True, slots=True)
class PastBreach:
    """Duration of a past incident, and whether a rebalance was requested during it."""

    seconds: float
    was_helped: bool


@dataclass(frozen=True, slots=True)
class PredictedSaving:
    """Prediction for a rebalance: seconds of breach that it saves, and what it costs.

    `saved_seconds`: None if unknown. `sentence`: description that continues "the rebalance ...".
    `left_seconds`: predicted remaining time of the breach without a rebalance, None if unknown.
    """

    saved_seconds: float | None
    sentence: str
    left_seconds: float | None = None

    @property
    def is_worth_it(self) -> bool:
        """Return whether the rebalance may save more than it costs; True if unknown."""
        return self.saved_seconds is None or self.saved_seconds >= PAUSE_SECONDS


def reason_against(policy: ActingPolicy, record: ActionRecord, name: DatastreamName, now_ms: int) -> str:
    """Return the reason why a rebalance of this datastream is forbidden now, or an empty string. Equal
    reasons have equal texts, without times and measured values."""
    if not policy.may_act:
        return "monitor.act is false"
    if record.switched_off:
        return f"rebalances by monitors are switched off: {record.switched_off}"
    if (frozen := frozen_by(policy.freezes, now_ms)) is not None:
        return f"inside the freeze window {frozen.text}"
    if record.waiting:
        return f"the requested rebalance of {record.waiting} has no plan yet"
    of_day = Counter(act.datastream for act in record.acts if act.is_of_day(now_ms))
    if of_day.total() >= policy.most_a_day:
        return (
            f"service limit of {counted(policy.most_a_day, 'rebalance a day', 'rebalances a day')} reached "
            "(monitor.most_a_day)"
        )
    if of_day[name] >= policy.most_a_day_of_each:
        return (
            f"limit of {counted(policy.most_a_day_of_each, 'rebalance a day', 'rebalances a day')} reached "
            "(monitor.most_a_day_of_each)"
        )
    return ""


def decide(mode: Mode, moves: int, preview: str, worth: PredictedSaving) -> ActionDecision:
    """Decide from the result of its dry run whether to request a rebalance that no limit forbids.

    `mode`: mode of the datastream, by default that of the settings. `preview`: summary of the dry run.
    """
    if moves == 0:
        return ActionDecision(ActionOutcome.REFUSES, f"a rebalance would not help: {preview}")
    grounds = f"{preview}; it {worth.sentence}"
    if not worth.is_worth_it:
        return ActionDecision(ActionOutcome.REFUSES, f"a rebalance would cost more than it saves: {grounds}")
    if mode is Mode.OBSERVE:
        return ActionDecision(
            ActionOutcome.WOULD_ACT, f"would request a rebalance, but only observes: {grounds}"
        )
    return ActionDecision(ActionOutcome.ACTS, grounds)


def worth_of(effect: PlacementEffect, past: Sequence[PastBreach], open_seconds: float) -> PredictedSaving:
    """Return the predicted saving of a rebalance. `past`: past breaches of the datastream. `open_seconds`:
    time for which the current breach has lasted."""
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
    """Return the share of the overload that a rebalance removes; None if unknown, for example if the
    rebalance only moves tasks to other instances."""
    before, after = effect.fullest_before, effect.fullest_after
    if before is None or after is None or after >= before:
        return None
    return 1.0 if effect.overloaded_after == 0 else (before - after) / before
