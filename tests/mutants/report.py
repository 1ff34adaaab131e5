"""Format verdicts as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.mutants.trial import Tier, Verdict


def heading() -> str:
    """Return the first line of the table."""
    return _line("fault", "make test", "make test-all", "seconds", "found by")


def row(verdict: Verdict, tier: Tier) -> str:
    """Return the table row of one fault."""
    in_test, in_all = _found(verdict, tier)
    words = {True: "found", False: "survives", None: "not run"}
    seconds = f"{verdict.seconds:.1f}"
    return _line(verdict.fault.id, words[in_test], words[in_all], seconds, verdict.test)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return the totals."""
    in_test = sum(one.tier is Tier.TEST for one in verdicts)
    found = sum(one.tier is not None for one in verdicts)
    return f"found: {found} of {len(verdicts)} ({in_test} by make test)"


def document_of(verdicts: Sequence[Verdict], tier: Tier) -> dict[str, Any]:
    """Return all verdicts as JSON values; null for a tier that did not run."""
    faults = []
    for one in verdicts:
        in_test, in_all = _found(one, tier)
        faults.append(
            {
                "id": one.fault.id,
                "room": one.fault.room,
                "file": one.fault.file,
                "breaks": one.fault.breaks,
                "found_by_make_test": in_test,
                "found_by_make_test_all": in_all,
                "test": one.test or None,
                "seconds": round(one.seconds, 1),
            }
        )
    return {"found": sum(one.tier is not None for one in verdicts), "total": len(verdicts), "faults": faults}


def _found(verdict: Verdict, tier: Tier) -> tuple[bool, bool | None]:
    """Return whether each tier finds it, None if unknown. `make test-all` includes `make test`."""
    is_found = verdict.tier is not None
    return verdict.tier is Tier.TEST, None if tier is Tier.TEST and not is_found else is_found


def _line(fault: str, in_test: str, in_all: str, seconds: str, test: str) -> str:
    return f"{fault:46} {in_test:10} {in_all:14} {seconds:>7}  {test}".rstrip()
