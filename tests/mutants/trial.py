"""Which tests run against a fault, in which order, and what they show. Pure; the caller runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.mutants.fault import Fault


class Tier(StrEnum):
    """A set of tests, by the command that runs it."""

    TEST = "test"
    """`make test`: without tests marked `deep`."""
    ALL = "all"
    """`make test-all`."""


RunTests = Callable[[Sequence[str], str], str]
"""Runs the tests in these paths that match a marker expression. Returns the first that fails, or nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tier`: the smallest that finds the fault, None where no test fails. `test`: the one that fails."""

    fault: Fault
    tier: Tier | None = None
    test: str = ""
    seconds: float = 0.0


def judge(fault: Fault, tier: Tier, run: RunTests) -> Verdict:
    """Run the expected tests, then the wider ones of the wing: those of `make test` first, then deep ones."""
    markers = {Tier.TEST: "not deep", Tier.ALL: "deep"}
    for smallest, marker in markers.items():
        if smallest is Tier.ALL and tier is Tier.TEST:
            break
        for paths, expression in ((fault.tests, marker), (wider_tests(fault), f"{marker} and not servers")):
            if test := run(paths, expression):
                return Verdict(fault, smallest, test)
    return Verdict(fault)


def wider_tests(fault: Fault) -> tuple[str, ...]:
    """Folders with the tests of the fault's wing. The simulation runs the engine, which is in `mirror`."""
    folders = f"tests/unit/{fault.wing}", f"tests/property/{fault.wing}"
    return (*folders, "tests/simulation") if fault.wing == "mirror" else folders
