"""Latency objectives of a datastream: a maximum latency, and a maximum share of late records over a
period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror.model import bounds

MOST_OBJECTIVES: Final = 10
LARGEST_OBJECTIVE_MS: Final = 366 * 24 * 3_600_000
SHORTEST_WINDOW_SECONDS: Final = 10
LONGEST_WINDOW_SECONDS: Final = 3_600
LONGEST_PERIOD_DAYS: Final = 90
LOWEST_PERCENT: Final = 0.001
HIGHEST_PERCENT: Final = 99.9999
"""Upper limit of a percentage.

The percentile is below 100, so that the error budget is never zero.
"""


@dataclass(frozen=True, slots=True)
class Objective:
    """Latency objective. Raises InvalidRequest.

    In each window of `window_seconds`, `percentile` percent of the records must arrive within `milliseconds`.
    In each period of `period_days`, `target_percent` percent of the records must arrive within this time. The
    remaining share is the error budget.
    """

    milliseconds: int
    target_percent: float
    percentile: float = 99.0
    window_seconds: int = 60
    period_days: int = 30

    def __post_init__(self) -> None:
        bounds.integer("an objective in ms", self.milliseconds, 1, LARGEST_OBJECTIVE_MS)
        for label, percent in (("the target", self.target_percent), ("the percentile", self.percentile)):
            bounds.number(f"{label} of an objective", percent, LOWEST_PERCENT, HIGHEST_PERCENT)
        bounds.integer(
            "the window of an objective in seconds",
            self.window_seconds,
            SHORTEST_WINDOW_SECONDS,
            LONGEST_WINDOW_SECONDS,
        )
        bounds.integer("the period of an objective in days", self.period_days, 1, LONGEST_PERIOD_DAYS)

    @property
    def budget(self) -> float:
        """Error budget: share of the records that may be late, between 0 and 1."""
        return (100 - self.target_percent) / 100

    @property
    def text(self) -> str:
        """Text form of the objective, which `read_objective` parses."""
        return (
            f"p{percent_text(self.percentile)} within {self.milliseconds} ms over {self.window_seconds} s, "
            f"{percent_text(self.target_percent)} % over {self.period_days} d"
        )


def percent_text(value: float) -> str:
    """Return the shortest text that parses to the same number."""
    return repr(float(value)).removesuffix(".0")
