"""The hours of the day in which a datastream carries least, learned from its hourly load. Pure.

Each day counts by its own mean, so that a busy day weighs as much as a calm one; of each hour of the day the
median of these shares is taken, and of all runs of the wanted length the one that carries least.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

HOUR_MS: Final = 3_600_000
_DAY: Final = 24
_FEWEST_DAYS: Final = 2


@dataclass(frozen=True, slots=True)
class QuietTerms:
    """`hours`: how long the window is, below 24; 0: none is looked for. `contrast`: how many times the load
    of the window the other hours carry at least."""

    hours: int = 4
    contrast: float = 1.5


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """From an hour of the day in UTC on, for some hours, every day."""

    first_hour: int
    hours: int

    def contains(self, now_ms: int) -> bool:
        """Whether the moment (epoch ms) is within."""
        return (now_ms // HOUR_MS - self.first_hour) % _DAY < self.hours

    @property
    def text(self) -> str:
        """As people read it."""
        return f"{self.first_hour:02}:00 to {(self.first_hour + self.hours) % _DAY:02}:00 UTC"


def quiet_window(totals: Mapping[int, float], terms: QuietTerms) -> QuietWindow | None:
    """The window of a datastream by its loads (bytes/s) of whole hours, by their begin (epoch ms).

    None: none is looked for, some hour of the day is not known of two days, nothing flows, or the load is too
    even for a window that deserves the name.
    """
    if not 0 < terms.hours < _DAY:
        return None
    shares = _shares(totals)
    if any(len(one) < _FEWEST_DAYS for one in shares):
        return None
    profile = [median(one) for one in shares]
    runs = [_run(profile, first, terms.hours) for first in range(_DAY)]
    first = min(range(_DAY), key=lambda hour: (fmean(runs[hour]), hour))
    others = _run(profile, first + terms.hours, _DAY - terms.hours)
    if not fmean(others) or fmean(others) < terms.contrast * fmean(runs[first]):
        return None
    return QuietWindow(first, terms.hours)


def _shares(totals: Mapping[int, float]) -> list[list[float]]:
    """By hour of the day, of each day that carried something and of which half is known: the load of the hour
    over the mean of the day."""
    days: dict[int, dict[int, float]] = {}
    for hour_ms, total in totals.items():
        day, hour = divmod(hour_ms // HOUR_MS, _DAY)
        days.setdefault(day, {})[hour] = total
    found: list[list[float]] = [[] for _ in range(_DAY)]
    for loads in days.values():
        mean = fmean(loads.values())
        for hour, total in loads.items() if mean and 2 * len(loads) >= _DAY else ():
            found[hour].append(total / mean)
    return found


def _run(profile: list[float], first: int, hours: int) -> list[float]:
    return [profile[(first + number) % _DAY] for number in range(hours)]
