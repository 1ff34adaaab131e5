"""Order of the tests that run against a fault, and the verdict. Pure: the caller runs the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.mutants.fault import Fault


class Tier(StrEnum):
    """A set of tests, named by its command."""

    TEST = "test"
    """`make test`: without tests marked `deep`."""
    ALL = "all"
    """`make test-all`."""


RunTests = Callable[[Sequence[str], str], str]
"""Runs the tests in these paths that match a marker expression; returns the first that fails, or ""."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tier`: smallest tier that finds the fault, None if it survives. `test`: the failing test."""

    fault: Fault
    tier: Tier | None = None
    test: str = ""
    seconds: float = 0.0


def judge(fault: Fault, tier: Tier, run: RunTests) -> Verdict:
    """Run the expected tests, then those of the wing; first without, then with tests marked `deep`."""
    markers = {Tier.TEST: "not deep", Tier.ALL: "deep"}
    for smallest, marker in markers.items():
        if smallest is Tier.ALL and tier is Tier.TEST:
            break
        for paths, expression in ((fault.tests, marker), (wider_tests(fault), f"{marker} and not servers")):
            if test := run(paths, expression):
                return Verdict(fault, smallest, test)
    return Verdict(fault)


def wider_tests(fault: Fault) -> tuple[str, ...]:
    """Return the test folders of the fault's wing. The simulation covers the engine, part of `mirror`."""
    folders = f"tests/unit/{fault.wing}", f"tests/property/{fault.wing}"
    return (*folders, "tests/simulation") if fault.wing == "mirror" else folders
