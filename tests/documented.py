"""Commands that the documentation shows in its blocks, and how each of them is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

HOUSE: Final = Path(__file__).parents[1]
PAGES: Final = [
    *(HOUSE / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted(page for page in (HOUSE / "docs").rglob("*.md") if page.name != "cli.md"),
]
"""Without the generated reference, whose lines are usages."""

_LINE: Final = re.compile(r"(?:\$ )?((?:[A-Z_]+=\S* )*(?:\.venv/bin/)?(?:headrace|make) +-{0,2}[a-z][^─│▶]*)")
_FENCE: Final = re.compile(r"^ *```")

WITHOUT_SERVERS: Final = (
    *("plan --input", "plan --history", "config check", "config show", "config example", "token"),
    *("--version", "config reference"),
)
"""Beginnings of commands that need nothing but files."""

ONLY_PARSED: Final = {
    "make": "what stands behind them is the whole test-suite, or takes minutes",
    "serve": "the service that the others ask is one",
    "copy": "ends only when it is stopped; tests/integration/headrace copies to files and clusters",
    "stack": "starts servers on ports that may be taken; tests/integration/stack has them",
    "plan --since": "takes weeks of samples in Pinot",
    "loads": "takes weeks of samples in Pinot",
    "import-brooklin": "takes a Brooklin's ZooKeeper; tests/e2e/test_take_over_brooklin.py has one",
    "events --follow": "does not end",
    "events --watch": "does not end",
}
"""Beginnings of commands that are not run here, and why."""


LOADS_CSV: Final = "topic,partition,bytes_per_second\norders,0,900000\n"
"""What `loads.csv` has, of which pages speak."""


class Documented(NamedTuple):
    """A command line of a page, as a shell takes it."""

    page: str
    line: str

    @property
    def words(self) -> str:
        """What follows `headrace`; of make, all of it."""
        return re.sub(r"^.*?\bheadrace +", "", self.line.partition(" #")[0]).strip()

    @property
    def only_parsed_because(self) -> str:
        """Why it is not run; empty where it is."""
        return next((why for start, why in ONLY_PARSED.items() if self.words.startswith(start)), "")

    @property
    def needs_service(self) -> bool:
        """Whether there has to be a service with clusters."""
        asks_a_service = not self.words.startswith(WITHOUT_SERVERS) or "--capacity-of" in self.words
        return asks_a_service and not self.only_parsed_because


def blocks_of(text: str) -> Iterator[str]:
    """Lines of a page in fenced or indented blocks, without indentation; continued ones are joined."""
    is_fenced, begun = False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            begun += line.strip()
            if begun.endswith("\\"):
                begun = begun[:-1]
                continue
            yield begun
            begun = ""


def documented_commands() -> list[Documented]:
    """Every command line of every page, in its order."""
    return [
        Documented(str(page.relative_to(HOUSE)), match[1].strip())
        for page in PAGES
        for line in blocks_of(page.read_text(encoding="utf-8"))
        if (match := _LINE.fullmatch(line))
    ]
