"""May the monitor ask for a rebalance now? Pure.

What forbids it is looked for in this order, and the first that is found is the reason: the setting
`monitor.act`, the service's own switch, a freeze window, another rebalance that waits, the limits of a day
over the service and of the datastream. Only then a dry run is worth its price; what it finds is decided in
`decide`. In `observe` mode everything is decided as ever, and what would be done is only said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.identifiers import DatastreamName
from mirror.model.sizing.freeze import FreezeWindow, frozen_by
from mirror.wording import counted
from monitor.actions.worth import Worth

DAY_MS: Final = 24 * 3_600_000


class Act(NamedTuple):
    """A rebalance that a monitor has asked for, at epoch milliseconds."""

    datastream: DatastreamName
    time_ms: int


@dataclass(frozen=True, slots=True)
class ActingPolicy:
    """What settings say. `may_act`: false forbids every rebalance."""

    may_act: bool = True
    mode: Mode = Mode.ACT
    most_a_day: int = 24
    most_a_day_of_each: int = 8
    freezes: tuple[FreezeWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """What the service knows of acting. `switched_off`: why a person has switched it off; empty: nobody has.
    `acts`: of all monitors, also former ones, at least those of the last day. `waiting`: the datastream whose
    rebalance a monitor has asked for and no plan has answered yet; empty: there is none."""

    switched_off: str = ""
    acts: Sequence[Act] = ()
    waiting: str = ""

    def acted(self, name: DatastreamName, now_ms: int) -> Record:
        """After one more act, before the service says so; without those of former days."""
        kept = [one for one in self.acts if now_ms - one.time_ms < DAY_MS]
        return replace(self, acts=(*kept, Act(name, now_ms)))


class Outcome(StrEnum):
    """What is decided."""

    ACTS = "acts"
    WOULD_ACT = "would act"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision with its reason."""

    outcome: Outcome
    sentence: str


def reason_against(policy: ActingPolicy, record: Record, name: DatastreamName, now_ms: int) -> str:
    """Why no rebalance of this datastream may be asked for now; empty: it may. It says the same for as long
    as the reason lasts."""
    if not policy.may_act:
        return "monitor.act is false"
    if record.switched_off:
        return f"acting is switched off: {record.switched_off}"
    if (frozen := frozen_by(policy.freezes, now_ms)) is not None:
        return f"it is within the freeze window {frozen.text}"
    if record.waiting:
        return f"the rebalance of {record.waiting} that a monitor has asked for is not in force yet"
    of_day = Counter(one.datastream for one in record.acts if now_ms - one.time_ms < DAY_MS)
    if of_day.total() >= policy.most_a_day:
        return (
            f"{counted(policy.most_a_day, 'rebalance a day is', 'rebalances a day are')} "
            "reached (monitor.most_a_day)"
        )
    if of_day[name] >= policy.most_a_day_of_each:
        return (
            f"{counted(policy.most_a_day_of_each, 'rebalance of it a day is', 'rebalances of it a day are')} "
            "reached (monitor.most_a_day_of_each)"
        )
    return ""


def decide(mode: Mode, moves: int, preview: str, worth: Worth) -> Decision:
    """What a dry run leads to, where nothing is against it. `mode`: of the datastream, else of the settings;
    `preview`: what the dry run says."""
    if moves == 0:
        return Decision(Outcome.REFUSES, f"a rebalance would not help: {preview}")
    told = f"{preview}; it {worth.sentence}"
    if not worth.is_worth_it:
        return Decision(Outcome.REFUSES, f"a rebalance would cost more than it saves: {told}")
    if mode is Mode.OBSERVE:
        return Decision(Outcome.WOULD_ACT, f"would ask for a rebalance, and only observes: {told}")
    return Decision(Outcome.ACTS, told)
