"""A finding of `headrace doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partialmethod

from mirror.wording import first_few


class Grade(StrEnum):
    """Severity of a finding of `headrace doctor`."""

    OK = "ok"
    NOTE = "note"
    """Information that requires no action."""
    UNKNOWN = "unknown"
    """The check could not run."""
    WARNING = "warning"
    """The configuration works now, but may fail or be abused later."""
    PROBLEM = "problem"
    """The examined part does not work."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A finding about the installation. `advice`: suggested fix."""

    subject: str
    grade: Grade
    sentence: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of findings, such as a cluster. Each method returns a finding with the grade of its name."""

    name: str

    def finding(self, grade: Grade, sentence: str, advice: str = "") -> DoctorFinding:
        """Return a finding about the subject."""
        return DoctorFinding(self.name, grade, sentence, advice)

    ok = partialmethod(finding, Grade.OK)
    note = partialmethod(finding, Grade.NOTE)
    unknown = partialmethod(finding, Grade.UNKNOWN)
    warning = partialmethod(finding, Grade.WARNING)
    problem = partialmethod(finding, Grade.PROBLEM)


def some_of(names: Sequence[str]) -> str:
    """Return the first few names, and the number of further names."""
    return first_few(names)
