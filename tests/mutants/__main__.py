"""Mutation check: plant known faults one at a time and report which of them the tests find.

    python -m tests.mutants                     every fault
    python -m tests.mutants --room leases       the faults of one room
    python -m tests.mutants --only ID           one fault; may be repeated

Exits with 1 if a fault survives the tests of the tier. `tests/mutants/faults/` lists the faults.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from tests.mutants.fault import ROOT, Fault, listed_faults
from tests.mutants.report import document_of, heading, row, summary
from tests.mutants.sandbox import Sandbox
from tests.mutants.trial import Tier, Verdict, judge


def main(arguments: Sequence[str]) -> int:
    """Run the check and return the exit code: 2 if no fault matches."""
    options = _parser().parse_args(arguments)
    chosen = [
        one
        for one in listed_faults()
        if (not options.only or one.id in options.only) and options.room in (None, one.room)
    ]
    unknown = set(options.only) - {one.id for one in chosen}
    if unknown or not chosen:
        print(f"no such fault: {', '.join(sorted(unknown)) or options.room}", file=sys.stderr)
        return 2
    verdicts = []
    if not options.json:
        print(heading())
    for verdict in verdicts_on(chosen, options.tier):
        verdicts.append(verdict)
        if not options.json:
            print(row(verdict, options.tier), flush=True)
    print(json.dumps(document_of(verdicts, options.tier), indent=2) if options.json else summary(verdicts))
    return 0 if all(one.tier is not None for one in verdicts) else 1


def verdicts_on(faults: Sequence[Fault], tier: Tier) -> Iterator[Verdict]:
    """Try each fault in a copy of this repository."""
    with TemporaryDirectory(prefix="headrace-mutants-") as folder:
        sandbox = Sandbox(ROOT, Path(folder))
        sandbox.fill()
        for fault in faults:
            began = monotonic()
            with sandbox.with_fault(fault):
                verdict = judge(fault, tier, sandbox.failing_test)
            if verdict.test:
                sandbox.require_sound(verdict.test)
            yield replace(verdict, seconds=monotonic() - began)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--tier", type=Tier, choices=list(Tier), default=Tier.ALL, help="tests to use")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="run this fault")
    parser.add_argument("--room", help="run the faults of this room")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes the copy
    sys.exit(main(sys.argv[1:]))
