"""Situations from public bug reports of other mirrors, clients and brokers, as a table.

Runs the tests of each row of `rig/situations.toml` and prints the table of docs/comparison/bug-reports.md.
Environment: `BENCH_CASES=record-too-large,headers-lost` selects rows, `WRITE=1` writes the table to it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from bench.reported.rig.register import FAILS, REPOSITORY, Situation, block, missing_tests, read, write

_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-o", "junit_family=xunit1")
_UNFAVOURABLE: Final = ("failure", "error", "skipped")


def outcomes(report: Path) -> dict[str, bool]:
    """Return whether each test passed, by file::function: with all its parameters, and not skipped."""
    passed: dict[str, bool] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('file')}::{case.get('name', '').partition('[')[0]}"
        is_good = all(case.find(kind) is None for kind in _UNFAVOURABLE)
        passed[test] = passed.get(test, True) and is_good
    return passed


def run(tests: Iterable[str], root: Path = REPOSITORY) -> dict[str, bool]:
    """Run tests in one pytest process, whose output goes to stderr, and return their outcomes."""
    chosen = sorted(set(tests))
    if not chosen:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*_PYTEST, f"--junitxml={report}", *chosen]
        subprocess.run(command, cwd=root, stdout=sys.stderr, check=False)
        return outcomes(report) if report.exists() else {}


def wanted(situations: Sequence[Situation]) -> list[Situation]:
    """Return the rows named in BENCH_CASES, or all. Raises SystemExit for an unknown name."""
    names = {name for name in os.environ.get("BENCH_CASES", "").split(",") if name}
    unknown = sorted(names - {situation.id for situation in situations})
    if unknown:
        sys.exit(
            f"unknown: {', '.join(unknown)}; available: {', '.join(situation.id for situation in situations)}"
        )
    return [situation for situation in situations if not names or situation.id in names]


def main() -> None:
    """Print the table. Raise SystemExit if a test does not exist, or if a row fails."""
    known = read()
    situations = wanted(known)
    missing = missing_tests(situations)
    if missing:
        sys.exit("missing tests:\n  " + "\n  ".join(missing))
    passed = run(test for situation in situations for test in situation.tests)
    verdicts = {situation.id: situation.verdict(passed) for situation in situations}
    table = block(situations, verdicts)
    print(table)
    failed = [name for name, verdict in verdicts.items() if verdict == FAILS]
    if failed:
        sys.exit(f"failed rows: {', '.join(failed)}")
    if os.environ.get("WRITE") and len(situations) == len(known):
        write(table)
