"""Prometheus' own checks, from the PATH or from Debian's package.

Without either, the tests apply the same rules with `tests.metric_names` and a parser of PromQL. The header of
a test run names the one used.
"""

from __future__ import annotations

import subprocess
from typing import Final

from tests.debian import PROMTOOL

_SECONDS: Final = 600


def promtool() -> str | None:
    """Return the path of promtool, or None if unavailable."""
    return PROMTOOL.path()


def known_promtool() -> str:
    """Describe the promtool that a run will use, without fetching it."""
    if found := PROMTOOL.known_path():
        return found
    why = "not available here" if PROMTOOL.has_failed() else "fetched on demand"
    return f"{why}; without it our own parser and rules check the same files, and no rule is evaluated"


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool, which must be available, and return the completed process."""
    program = promtool()
    assert program is not None
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, check=False, text=True, timeout=_SECONDS
    )
