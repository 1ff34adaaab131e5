"""One thing that was looked at, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.wording import first_few

_NAMED: Final = 5


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    UNKNOWN = "unknown"
    """It could not be looked at."""
    WARNING = "warning"
    """It works now, and will fail or be misused one day."""
    PROBLEM = "problem"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A sentence about one part of the set-up. `advice`: what a person can do."""

    subject: str
    grade: Grade
    sentence: str
    advice: str = ""


def some_of(names: Sequence[str]) -> str:
    """The first few names, and how many there are beyond."""
    return first_few(names, _NAMED)
