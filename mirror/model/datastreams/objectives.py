"""Latency objectives of a datastream: their text form in the metadata, and the reaction to a breach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds

MOST_OBJECTIVES: Final = 10
LARGEST_OBJECTIVE_MS: Final = 366 * 24 * 3_600_000
SHORTEST_WINDOW_SECONDS: Final = 10
LONGEST_WINDOW_SECONDS: Final = 3_600
LONGEST_PERIOD_DAYS: Final = 90
LOWEST_PERCENT: Final = 0.001
HIGHEST_PERCENT: Final = 99.9999
"""Upper limit of a percentage in an objective.

The percentile is below 100, so that the error budget is never zero.
"""


@dataclass(frozen=True, slots=True)
class Objective:
    """A latency objective. Raises InvalidRequest.

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


OBJECTIVES: Final = "headrace-objectives"
"""Metadata key of the latency objectives, one per line.

The metadata key lacks the prefix `headrace.`, so that older versions keep it.
"""

_MILLISECONDS: Final[Mapping[str, int]] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LENGTH: Final = r"(\d{1,15}) ?(ms|s|m|h|d)"
_PERCENT: Final = r"\d{1,2}(?:\.\d{1,20})?"
_LINE: Final = re.compile(
    rf"(?:p(?P<percentile>{_PERCENT}) )?within (?P<late>{_LENGTH})(?: over (?P<window>{_LENGTH}))?, ?"
    rf"(?P<target>{_PERCENT}) ?%(?: over (?P<period>{_LENGTH}))?",
    re.ASCII,
)
_ADVICE: Final = "write it as p99 within 2000 ms over 60 s, 99.5 % over 30 d"


def read_objective(value: object) -> Objective:
    """Parse an objective such as `p99 within 2 s over 1 m, 99.5 % over 30 d`. Raises InvalidRequest.

    The percentile, the window and the period have defaults.
    """
    line = " ".join(bounds.text("an objective", value, bounds.LONGEST_REASON).split())
    found = _LINE.fullmatch(line)
    if found is None:
        raise InvalidRequest(f"{bounds.shown(line)} is not a valid objective", advice=_ADVICE)
    given: dict[str, float | int] = {}
    for name, text, unit in (
        ("window_seconds", found["window"], 1_000),
        ("period_days", found["period"], 86_400_000),
    ):
        if text is not None:
            given[name] = _whole(text, unit, line)
    if found["percentile"] is not None:
        given["percentile"] = float(found["percentile"])
    late = _whole(found["late"], 1, line)
    return Objective(late, float(found["target"]), **given)  # type: ignore[arg-type]


def _whole(text: str, unit: int, line: str) -> int:
    """Parse a duration in a line of objectives, and return it in units of `unit` milliseconds."""
    number, name = text.rstrip("msdh").rstrip(), text.lstrip("0123456789").strip()
    units, rest = divmod(int(number) * _MILLISECONDS[name], unit)
    if rest:
        raise InvalidRequest(f"{text} in {bounds.shown(line)} is not a whole number of units", advice=_ADVICE)
    return units


def read_length(value: object, unit: int) -> int:
    """Parse a duration such as `60s` or `5 m`, and return it in units of `unit` milliseconds. Raises
    InvalidRequest."""
    line = " ".join(bounds.text("a duration", value, bounds.LONGEST_REASON).split())
    if re.fullmatch(_LENGTH, line, re.ASCII) is None:
        raise InvalidRequest(f"invalid duration {bounds.shown(line)}", advice="write 60 s or 5 m")
    return _whole(line, unit, line)


def read_objectives(label: str, value: str) -> tuple[Objective, ...]:
    """Parse objectives, one per line. Raises InvalidRequest."""
    return checked_objectives(label, [read_objective(line) for line in value.splitlines() if line.strip()])


def checked_objectives(label: str, objectives: Iterable[Objective]) -> tuple[Objective, ...]:
    """Validate the latency objectives of one datastream. Raises InvalidRequest."""
    found = tuple(objectives)
    if len(found) > MOST_OBJECTIVES:
        raise InvalidRequest(
            f"{label} has {len(found)} entries", advice=f"at most {MOST_OBJECTIVES} are allowed"
        )
    if len(set(found)) < len(found):
        raise InvalidRequest(f"{label} contains an objective twice")
    return found


def objectives_from(metadata: Mapping[str, str]) -> tuple[Objective, ...]:
    """Return the objectives in a datastream's metadata. Raises InvalidRequest."""
    return read_objectives(f"metadata {OBJECTIVES}", metadata.get(OBJECTIVES, ""))


MONITOR_MODE: Final = "headrace-monitor"
"""Metadata key of the monitor's mode, without the prefix `headrace.`, so that older versions keep it."""


class Mode(StrEnum):
    """Reaction of the monitor to a breach if a rebalance can help."""

    ACT = "act"
    """The monitor requests a rebalance if it can help."""
    OBSERVE = "observe"
    """Only report the rebalance that the monitor would request."""


def read_mode(label: str, value: object) -> Mode:
    """Parse a monitor mode. Raises InvalidRequest."""
    return bounds.choice(label, Mode, value)


def mode_from(metadata: Mapping[str, str]) -> Mode | None:
    """Return the monitor mode of a datastream, or None for the monitor's default. Raises InvalidRequest."""
    found = metadata.get(MONITOR_MODE)
    return None if found is None else read_mode(f"metadata {MONITOR_MODE}", found)
