"""Situations of situations.toml, and their table on docs/comparison/bug-reports.md."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.tables import markdown, replace_between, text_between

REPOSITORY: Final = Path(__file__).parents[3]
PAGE: Final = REPOSITORY / "docs/comparison/bug-reports.md"
FILE: Final = Path(__file__).with_name("situations.toml")
BEGIN: Final = "<!-- reported: written by bench reported_faults -->"
END: Final = "<!-- end of reported -->"
HEADER: Final = ("reported", "against", "reference", "Headrace", "tests")
HOLDS: Final = "handled"
FALLS_SHORT: Final = "handled in part"
FAILS: Final = "**test fails**"

_JIRA: Final = re.compile(r"[A-Z]+-\d+")
_GITHUB: Final = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


@dataclass(frozen=True)
class Situation:
    """Public bug report, and the tests that show how Headrace behaves in that situation.

    `reference`: a key of Apache's Jira, or owner/name#number on GitHub. `state`: state of the report when it
    was read. `tests`: file::function. `falls_short`: what Headrace does not handle, if anything.
    Raises ValueError for any other reference, and if both tests and `falls_short` are missing.
    """

    id: str
    against: str
    reference: str
    state: str
    reported: str
    tests: tuple[str, ...] = ()
    falls_short: str = ""

    def __post_init__(self) -> None:
        if not self.tests and not self.falls_short:
            raise ValueError(f"{self.id}: tests or falls_short is required")
        if not self.link:
            raise ValueError(f"{self.id}: {self.reference!r} is neither KAFKA-1234 nor owner/name#number")

    @property
    def link(self) -> str:
        """Address of the report; empty if the reference is in another format."""
        if _JIRA.fullmatch(self.reference):
            return f"https://issues.apache.org/jira/browse/{self.reference}"
        found = _GITHUB.fullmatch(self.reference)
        return f"https://github.com/{found[1]}/issues/{found[2]}" if found else ""

    @property
    def expected(self) -> str:
        """Verdict if every test passes."""
        return FALLS_SHORT if self.falls_short else HOLDS

    def verdict(self, passed: Mapping[str, bool]) -> str:
        """Return the verdict of a run. A test that did not run counts as not passed."""
        return self.expected if all(passed.get(test, False) for test in self.tests) else FAILS

    def row(self, verdict: str) -> tuple[str, ...]:
        """Return the cells of the table row."""
        here = f"{verdict}: {self.falls_short}" if verdict == FALLS_SHORT else verdict
        shown = ", ".join(f"`{test.rpartition('/')[2]}`" for test in self.tests)
        reference = f"[{self.reference}]({self.link}), {self.state}"
        return (self.reported, self.against, reference, here, shown or "no test yet")


def read(file: Path = FILE) -> list[Situation]:
    """Read the situations. Raises ValueError if a row is invalid or two have the same id."""
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["situation"]
    found = [Situation(**{**row, "tests": tuple(row.get("tests", ()))}) for row in rows]
    names = [one.id for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"duplicate ids: {', '.join(twice)}")
    return found


def missing_tests(situations: Iterable[Situation], root: Path = REPOSITORY) -> list[str]:
    """Return each named test that does not exist, with the id of its row."""
    missing = []
    for situation in situations:
        for test in situation.tests:
            file, _, name = test.partition("::")
            if name not in _functions_of(root / file):
                missing.append(f"{situation.id}: {test}")
    return missing


def _functions_of(file: Path) -> set[str]:
    if not file.exists():
        return set()
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def block(situations: Sequence[Situation], verdicts: Mapping[str, str]) -> str:
    """Return the counts and the table in Markdown. `verdicts`: maps the id of each situation to its
    verdict."""
    found = [verdicts[situation.id] for situation in situations]
    parts = [
        f"{found.count(one)} {label}"
        for one, label in (
            (HOLDS, "handled"),
            (FALLS_SHORT, "handled in part"),
            (FAILS, "with a failing test"),
        )
    ]
    count = f"{len(found)} situations: {', '.join(parts)}."
    rows = [situation.row(verdicts[situation.id]) for situation in situations]
    return f"{count}\n\n{markdown(HEADER, rows)}"


def block_on(page: Path = PAGE) -> str:
    """Return the text between the markers of the page."""
    return text_between(page, BEGIN, END)


def write(text: str, page: Path = PAGE) -> None:
    """Replace the text between the markers of the page."""
    replace_between(page, BEGIN, END, text)
