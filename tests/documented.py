"""Commands in code blocks of the documentation, and how each is tested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "cli.md"),
]
"""All pages except the generated reference, whose lines are usages."""

_LINE: Final = re.compile(
    r"(?:\$ )?((?:[A-Z_]+=\S* )*(?:\.venv/bin/)?(?:headrace(?:-dev)?|make) +-{0,2}[a-z][^─│▶]*)"
)
_FENCE: Final = re.compile(r"^ *```")

WITHOUT_SERVERS: Final = (
    *("plan --input", "plan --history", "config check", "config show", "config example", "token"),
    "--version",
)
"""Prefixes of commands that only need files."""

ONLY_PARSED: Final = {
    "make": "runs the whole test suite or takes minutes",
    "serve": "the other commands already run against a service",
    "copy": "runs until stopped; tests/integration/headrace copies to files and clusters",
    "stack": "uses ports that may be in use; see tests/integration/stack",
    "dr": "exchanges the roles of the clusters that the other commands use; see tests/e2e/test_switchover.py",
    "state": "needs a stopped service; see tests/unit/headrace/test_state_transfer.py",
    "plan --since": "needs weeks of samples in Pinot",
    "loads": "needs weeks of samples in Pinot",
    "import-brooklin": "needs Brooklin's ZooKeeper; see tests/e2e/test_take_over_brooklin.py",
    "topics retire": "a topic is unused after weeks; see tests/unit/headrace/test_topics_command.py",
    "topics restore": "a topic is unused after weeks; see tests/unit/headrace/test_topics_command.py",
    "datastream forget": "needs a lost datastream; see tests/unit/headrace/test_lost_datastreams.py",
    "groups explain": "the leader reads them later; see tests/unit/headrace/test_consumer_group_commands.py",
    "events --follow": "does not end",
    "events --watch": "does not end",
}
"""Prefixes of commands that are only parsed, with the reason."""


LOADS_CSV: Final = "topic,partition,bytes_per_second\norders,0,900000\n"
"""Contents of `loads.csv` on the pages."""


class Documented(NamedTuple):
    """Command line of a page as passed to a shell."""

    page: str
    line: str

    @property
    def words(self) -> str:
        """Arguments of `headrace`; for make the whole command."""
        return re.sub(r"^.*?\bheadrace(?:-dev)? +", "", self.line.partition(" #")[0]).strip()

    @property
    def only_parsed_because(self) -> str:
        """Reason why the command is not run; empty if it is."""
        return next((why for start, why in ONLY_PARSED.items() if self.words.startswith(start)), "")

    @property
    def needs_service(self) -> bool:
        """Return whether the command needs a service with clusters."""
        asks_a_service = not self.words.startswith(WITHOUT_SERVERS) or "--capacity-of" in self.words
        return asks_a_service and not self.only_parsed_because


def blocks_of(text: str) -> Iterator[str]:
    """Yield the lines in fenced or indented blocks, without indentation, with continuation lines joined."""
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
    """Return every command line of every page, in order."""
    return [
        Documented(str(page.relative_to(ROOT)), match[1].strip())
        for page in PAGES
        for line in blocks_of(page.read_text(encoding="utf-8"))
        if (match := _LINE.fullmatch(line))
    ]
