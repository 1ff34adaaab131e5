"""Findings of `headrace doctor`."""

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
    """Object that findings are about, such as a cluster. Its methods create findings: `warning` creates a
    warning."""

    name: str

    def finding(self, grade: Grade, sentence: str, advice: str = "") -> DoctorFinding:
        """Create a finding about the subject."""
        return DoctorFinding(self.name, grade, sentence, advice)

    ok = partialmethod(finding, Grade.OK)
    note = partialmethod(finding, Grade.NOTE)
    unknown = partialmethod(finding, Grade.UNKNOWN)
    warning = partialmethod(finding, Grade.WARNING)
    problem = partialmethod(finding, Grade.PROBLEM)


def some_of(names: Sequence[str]) -> str:
    """Join the first few names, and add the number of further names."""
    return first_few(names)
