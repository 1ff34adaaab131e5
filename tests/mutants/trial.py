"""Order of the tests that run against a fault, and the verdict. Pure: the caller runs the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.examples import DEEP, QUICK
from tests.mutants.fault import Fault


class Tier(StrEnum):
    """A set of tests, named by its command."""

    TEST = "test"
    """`make test`: no test marked `deep`, and a tenth of the examples of properties."""
    ALL = "all"
    """`make test-all`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests to run. `marker`: expression that they match. `profile`: of Hypothesis, for the examples."""

    paths: tuple[str, ...]
    marker: str = ""
    profile: str = DEEP


RunTests = Callable[[Selection], str]
"""Runs tests and returns the identifier of the first that fails, or ""."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tier`: smallest tier that finds the fault, None if it survives. `test`: the failing test."""

    fault: Fault
    tier: Tier | None = None
    test: str = ""
    seconds: float = 0.0


def judge(fault: Fault, tier: Tier, run: RunTests) -> Verdict:
    """Run the expected tests, then those of the wing; as `make test` does, then as `make test-all` does."""
    selections = (
        (Tier.TEST, Selection(fault.tests, "not deep", QUICK)),
        (Tier.TEST, Selection(wider_tests(fault), "not deep and not servers", QUICK)),
        (Tier.ALL, Selection(fault.tests)),
        (Tier.ALL, Selection(wider_tests(fault), "not servers")),
    )
    for smallest, selection in selections:
        if tier in (smallest, Tier.ALL) and (test := run(selection)):
            return Verdict(fault, smallest, test)
    return Verdict(fault)


def wider_tests(fault: Fault) -> tuple[str, ...]:
    """Return the test folders of the fault's wing. The simulation covers the engine, part of `mirror`."""
    folders = f"tests/unit/{fault.wing}", f"tests/property/{fault.wing}"
    return (*folders, "tests/simulation") if fault.wing == "mirror" else folders
