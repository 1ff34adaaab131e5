"""Prometheus' own checks, from the PATH or from Debian's package, unpacked into the cache without root.

Without either, the tests apply the same rules with `tests.metric_names` and a parser of PromQL. The header of
a test run names the one used.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from stack.folders import alone_in

_CACHE: Final = Path(__file__).parents[1] / ".cache" / "promtool"
_SECONDS: Final = 120


@cache
def promtool() -> str | None:
    """Return the path of promtool, or None if unavailable. Concurrent calls wait for each other."""
    here = shutil.which("promtool")
    if here:
        return here
    with alone_in(_CACHE):
        found = _CACHE / "usr/bin/promtool"
        if not found.exists() and not (_CACHE / "cannot").exists():
            _fetch()
    return str(found) if found.exists() else None


def known_promtool() -> str:
    """Describe the promtool that a run will use, without fetching it."""
    found = shutil.which("promtool") or _CACHE / "usr/bin/promtool"
    if Path(found).exists():
        return str(found)
    why = "not available here" if (_CACHE / "cannot").exists() else "fetched on demand"
    return f"{why}; without it our own parser and rules check the same files, and no rule is evaluated"


def _fetch() -> None:
    """Fetch the package with separate package lists, so that neither root nor the machine's lists are needed.

    A failure is remembered until the caches are emptied.
    """
    folder = {name: str(_CACHE / name) for name in ("lists", "archives")}
    own = [
        f"Dir::State::lists={folder['lists']}",
        f"Dir::Cache={folder['archives']}",
        "APT::Sandbox::User=",
        "Debug::NoLocking=1",
    ]
    options = [word for one in own for word in ("-o", one)]
    for made in folder.values():
        (Path(made) / "partial").mkdir(parents=True, exist_ok=True)
    try:
        for step in (
            ["apt-get", *options, "update"],
            ["apt-get", *options, "download", "prometheus"],
            ["sh", "-c", "dpkg-deb -x prometheus_*.deb ."],
        ):
            subprocess.run(step, cwd=_CACHE, check=True, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        (_CACHE / "cannot").write_text(str(error), encoding="utf-8")
    for made in (*folder.values(), *(str(_CACHE / name) for name in ("etc", "lib", "var", "usr/share"))):
        shutil.rmtree(made, ignore_errors=True)
    for made_file in (*_CACHE.glob("*.deb"), _CACHE / "usr/bin/prometheus"):
        made_file.unlink(missing_ok=True)


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool, which must be available, and return the completed process."""
    program = promtool()
    assert program is not None
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, check=False, text=True, timeout=_SECONDS
    )
