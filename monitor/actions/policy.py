"""Rules for requesting a rebalance. Pure.

A rebalance can be forbidden by the setting `monitor.act`, the switch of the service, a freeze window, a
pending rebalance, the daily limit of the service, or the daily limit of the datastream. These conditions are
checked in this order, and the first that forbids the rebalance is reported. If no condition forbids the
rebalance, the monitor does a dry run, and `decide` evaluates the result. In the mode `observe`, the monitor
reports its decisions without acting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.capacity.freeze import FreezeWindow, frozen_by
from mirror.model.datastreams.objectives import Mode
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted
from monitor.actions.worth import PredictedSaving

DAY_MS: Final = 24 * 3_600_000


class RebalanceAction(NamedTuple):
    """A rebalance that a monitor requested, with the time of the request (epoch ms)."""

    datastream: DatastreamName
    time_ms: int


@dataclass(frozen=True, slots=True)
class ActingPolicy:
    """Configured limits. If `may_act` is False, the monitor requests no rebalance."""

    may_act: bool = True
    mode: Mode = Mode.ACT
    most_a_day: int = 24
    most_a_day_of_each: int = 8
    freezes: tuple[FreezeWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """Rebalances by monitors, as stored by the service.

    `switched_off`: reason why an operator has forbidden rebalances, or an empty string. `acts`: rebalances
    that any monitor requested in at least the last day. `waiting`: datastream whose requested rebalance has
    no plan yet, or an empty string.
    """

    switched_off: str = ""
    acts: Sequence[RebalanceAction] = ()
    waiting: str = ""

    def acted(self, name: DatastreamName, now_ms: int) -> ActionRecord:
        """Return the record with another rebalance, and without rebalances older than a day."""
        kept = [act for act in self.acts if now_ms - act.time_ms < DAY_MS]
        return replace(self, acts=(*kept, RebalanceAction(name, now_ms)))


class ActionOutcome(StrEnum):
    """Result of a decision."""

    ACTS = "acts"
    WOULD_ACT = "would act"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True)
class ActionDecision:
    """One decision with its reason."""

    outcome: ActionOutcome
    sentence: str


def reason_against(policy: ActingPolicy, record: ActionRecord, name: DatastreamName, now_ms: int) -> str:
    """Return why a rebalance of this datastream is forbidden now, or an empty string.

    The text contains no times and no measured values, so that equal reasons have equal texts.
    """
    if not policy.may_act:
        return "monitor.act is false"
    if record.switched_off:
        return f"rebalances by monitors are switched off: {record.switched_off}"
    if (frozen := frozen_by(policy.freezes, now_ms)) is not None:
        return f"inside the freeze window {frozen.text}"
    if record.waiting:
        return f"the requested rebalance of {record.waiting} is not in force yet"
    of_day = Counter(act.datastream for act in record.acts if now_ms - act.time_ms < DAY_MS)
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
    """Decide on a permitted rebalance from the result of its dry run.

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
