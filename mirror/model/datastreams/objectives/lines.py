"""Text form of objectives, which users write and a datastream's metadata stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.objectives.objective import MOST_OBJECTIVES, Objective

OBJECTIVES: Final = "headrace-objectives"
"""Metadata key of the objectives, one per line.

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
    """Parse a duration, and return it in units of `unit` milliseconds."""
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
    """Validate the objectives of one datastream. Raises InvalidRequest."""
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
