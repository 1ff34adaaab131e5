"""Burn rates of error budgets, and the rules that fire alerts because of them. Pure.

A burn rate of 1 uses up the budget in exactly one period. A rule has a long window, so that only significant
burns cause an alert, and a short window, so that the alert resolves soon after its cause has ended. A rule
fires if the budget burns at the rule's rate or faster in both windows. The alert of an objective fires if any
of its rules fires.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.objectives import Objective
from mirror.wording import exact_duration_text
from monitor.burn.pieces import looked_at_seconds
from monitor.burn.tally import LatencyTally, bad_share

DAY_SECONDS: Final = 86_400
_LONGEST_SECONDS: Final = 30 * DAY_SECONDS
_SHORTEST_SECONDS: Final = 60
_LASTS_AT: Final = 0.75
"""Fraction of a rule's rate below which a firing alert resolves."""
_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": DAY_SECONDS}
_LENGTH: Final = r"(\d{1,9}) ?([smhd])"
_RULE: Final = re.compile(rf"(\d{{1,6}}(?:\.\d{{1,6}})?) over {_LENGTH}(?: and {_LENGTH})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BurnRule:
    """Burn rate at which an alert fires, and the two windows in which the budget must burn at least as fast.

    A rule with one window has its length in both fields.
    """

    rate: float
    long_seconds: int
    short_seconds: int

    @property
    def has_two_windows(self) -> bool:
        """True if the rule has a separate short window, which shows early that the cause has ended."""
        return self.short_seconds < self.long_seconds

    @property
    def text(self) -> str:
        """The rule as written in the settings."""
        short = f" and {length_text(self.short_seconds)}" if self.has_two_windows else ""
        return f"{self.rate:g} over {length_text(self.long_seconds)}{short}"


def read_rule(text: str) -> BurnRule:
    """Parse a burn rule from settings: `14.4 over 1 h and 5 m`. Raises InvalidRequest."""
    found = _RULE.fullmatch(" ".join(text.split()))
    if found is None:
        raise InvalidRequest(f"invalid burn rate {shown(text)}", advice="example: 14.4 over 1 h and 5 m")
    rate, number, unit, short_number, short_unit = found.groups()
    long_seconds = int(number) * _SECONDS[unit]
    short_seconds = int(short_number) * _SECONDS[short_unit] if short_unit else long_seconds
    if not _SHORTEST_SECONDS <= short_seconds <= long_seconds <= _LONGEST_SECONDS or float(rate) <= 0:
        raise InvalidRequest(
            f"burn rate out of range: {shown(text)}",
            advice="use a rate above 0, windows of 1 m to 30 d, and the longer window first",
        )
    return BurnRule(float(rate), long_seconds, short_seconds)


def length_text(seconds: int) -> str:
    """Format a duration as a whole number of the largest possible unit."""
    unit, size = next(
        (name, length) for name, length in reversed([*_SECONDS.items()]) if seconds % length == 0
    )
    return f"{seconds // size} {unit}"


@dataclass(frozen=True, slots=True)
class BurnResult:
    """Burn rates in the windows of a rule. A rate is None if its window could not be read completely."""

    rule: BurnRule
    long_rate: float | None
    short_rate: float | None

    @property
    def is_firing(self) -> bool:
        """True if the budget burns at the rate of the rule or faster in both windows.

        A rule with an unknown rate does not fire.
        """
        return self._is_at(self.rule.rate)

    @property
    def is_lasting(self) -> bool:
        """True if a firing alert must continue, because both rates are at least 75 % of the rate of the rule.

        The lower threshold prevents flapping.
        """
        return self._is_at(self.rule.rate * _LASTS_AT)

    @property
    def may_last(self) -> bool:
        """True if a firing alert may have to continue: no known rate is below 75 % of the rate of the
        rule."""
        rates = self.long_rate, self.short_rate
        return all(rate is None or rate >= self.rule.rate * _LASTS_AT for rate in rates)

    def _is_at(self, least: float) -> bool:
        return all(rate is not None and rate >= least for rate in (self.long_rate, self.short_rate))


@dataclass(frozen=True, slots=True)
class Budget:
    """State of an objective's error budget.

    `left`: remaining share, at most 1, negative if overspent, None if the period could not be read
    completely. `days`: number of days of the period with retained measurements, 0 if the period cannot be
    read.
    """

    objective: Objective
    left: float | None
    days: int
    burns: tuple[BurnResult, ...] = ()

    @property
    def firing(self) -> tuple[BurnResult, ...]:
        """Results of those rules whose alert fires."""
        return tuple(burn for burn in self.burns if burn.is_firing)

    @property
    def lasting(self) -> tuple[BurnResult, ...]:
        """Results of those rules for which a firing alert must continue."""
        return tuple(burn for burn in self.burns if burn.is_lasting)

    @property
    def sentence(self) -> str:
        """Remaining budget and burn rates in a sentence."""
        objective = self.objective
        within = exact_duration_text(objective.milliseconds)
        of_what = f"{objective.target_percent:g} % within {within} over {objective.period_days} d"
        unknown = "budget unknown so far" if self.days else "the budget requires Pinot"
        left = unknown if self.left is None else f"{self.left:.0%} of the budget left"
        kept = f" ({self.days} d retained)" if 0 < self.days < objective.period_days else ""
        rates: dict[int, str] = {}
        for burn in self.burns:
            sides = (burn.rule.long_seconds, burn.long_rate), (burn.rule.short_seconds, burn.short_rate)
            rates |= {seconds: _rate_text(rate, seconds) for seconds, rate in sides}
        burning = f"; burns {', '.join(rates[key] for key in sorted(rates))}" if rates else ""
        alerts = ", ".join(burn.rule.text for burn in self.firing)
        return f"{of_what}: {left}{kept}{burning}{f'; too fast: {alerts}' if alerts else ''}"


def _rate_text(rate: float | None, seconds: int) -> str:
    return f"{'?' if rate is None else f'{rate:.3g}x'} in {length_text(seconds)}"


def judge_budget(
    objective: Objective,
    tallies: Mapping[int, LatencyTally | None],
    rules: Sequence[BurnRule],
    minimum_records: int,
    most_days: int,
) -> Budget:
    """Return the remaining budget of an objective, and its burn rates.

    `tallies`: tally of every window of the rules and of the period, by length in seconds; None or missing if
    it could not be read completely. `most_days`: retention of measurements in days, 0 if the period cannot be
    read.
    """
    budget = objective.budget
    rates = {
        seconds: bad_share(tally, looked_at_seconds(seconds), minimum_records) / budget
        for seconds, tally in tallies.items()
        if tally is not None
    }
    days = min(objective.period_days, most_days)
    whole = rates.get(days * DAY_SECONDS)
    burns = tuple(
        BurnResult(rule, rates.get(rule.long_seconds), rates.get(rule.short_seconds)) for rule in rules
    )
    return Budget(objective, None if whole is None else 1 - whole, days, burns)
