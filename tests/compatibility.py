"""Tests of copying against other releases of Kafka: `python -m tests.compatibility [SET …]`.

Runs a part of the tests with brokers of each release at both ends and prints a table. With `WRITE=1`, it also
replaces the table in docs/comparison.md. Exits with 1 if a test fails.
`tests/integration/mirror/test_releases.py` runs the same tests beside others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Final, NamedTuple

from bench.tables import markdown, replace_between
from stack.jars.coordinates import KAFKA_RELEASES, artefacts_of

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/comparison.md"
BEGIN: Final = "<!-- releases: written by python -m tests.compatibility -->"
END: Final = "<!-- end of releases -->"
TESTS: Final = {
    "guarantees": "tests/contract/mirror/test_copy_engine.py",
    "topics and settings": "tests/contract/mirror/test_topic_admin.py",
    "codecs, transactions, compaction": "tests/integration/mirror/replication/test_fidelity.py",
    "groups": "tests/integration/mirror/replication/test_translating.py",
    "topics created again": "tests/integration/mirror/replication/test_renamed.py",
}
"""Files of tests by what they show."""
_CACHE: Final = ("-o", "cache_dir=.cache/pytest")
_KAFKA: Final = "kafka"
"""The set of all other tests."""


class Results(NamedTuple):
    """Results of one release. `passed`: number of passed tests by file. `failed`: ids of the other tests."""

    passed: dict[str, int]
    failed: list[str]


def release_of(set_name: str) -> str:
    """Return the version of the broker in a set of jars."""
    return next(artefact.version for artefact in artefacts_of(set_name) if artefact.name == "kafka_2.13")


def run(set_name: str) -> Results:
    """Run the tests with brokers of one set."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**own, "KAFKA_RELEASE": "" if set_name == _KAFKA else set_name}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "servers", *_CACHE, f"--junitxml={report}"]
        subprocess.run([*command, *TESTS.values()], cwd=ROOT, env=environment, check=False)
        if not report.exists():
            return Results({}, ["the tests did not start"])
        return results_of(report.read_text(encoding="utf-8"))


def results_of(report: str) -> Results:
    """Parse a report in JUnit's format."""
    passed, failed = dict.fromkeys(TESTS.values(), 0), []
    for case in ElementTree.fromstring(report).iter("testcase"):
        file = next((file for file in TESTS.values() if _is_of(case.get("classname", ""), file)), "")
        if file and case.find("failure") is None and case.find("error") is None:
            passed[file] += 1
        else:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
    return Results(passed, failed)


def _is_of(class_name: str, file: str) -> bool:
    module = file.removesuffix(".py").replace("/", ".")
    return class_name == module or class_name.startswith(f"{module}.")


def table(results: dict[str, Results]) -> str:
    """Return the table of passed and failed tests, one row for each release."""
    rows = []
    for set_name, (passed, failed) in results.items():
        counts = [str(passed.get(file, 0)) for file in TESTS.values()]
        rows.append([release_of(set_name), *counts, str(len(failed))])
    return markdown(["Kafka", *TESTS, "failed"], rows)


def main(names: list[str]) -> int:
    """Run the tests for the named sets, or for all; return the exit code."""
    results = {}
    for name in names or sorted([_KAFKA, *KAFKA_RELEASES], key=release_of):
        results[name] = run(name)
        for test in results[name].failed:
            print(f"failed with Kafka {release_of(name)}: {test}", flush=True)
    print(table(results))
    if os.environ.get("WRITE") and not names:
        replace_between(PAGE, BEGIN, END, table(results))
    return int(any(result.failed for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
