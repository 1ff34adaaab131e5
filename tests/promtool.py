"""Prometheus' own checks, where they can be had: on the PATH, or of Debian's package, which is unpacked into
the caches without root. Where neither is, the tests hold the same files to the same rules by
`tests.metric_names` and by a parser of Prometheus' language; the header of a run says which it was."""

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
    """Its path; None where it cannot be had. Two that ask at once wait for each other."""
    here = shutil.which("promtool")
    if here:
        return here
    with alone_in(_CACHE):
        found = _CACHE / "usr/bin/promtool"
        if not found.exists() and not (_CACHE / "cannot").exists():
            _fetch()
    return str(found) if found.exists() else None


def known_promtool() -> str:
    """What a run will use, as far as that is known without fetching it."""
    found = shutil.which("promtool") or _CACHE / "usr/bin/promtool"
    if Path(found).exists():
        return str(found)
    why = "cannot be had here" if (_CACHE / "cannot").exists() else "fetched when it is needed"
    return f"{why}; without it a parser and rules of our own check what it checks, and no rule is evaluated"


def _fetch() -> None:
    """With lists of packages of its own, so that neither root nor the machine's lists are needed. A machine
    that cannot is not asked again until the caches are emptied."""
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
    """What it says of this. It must be there."""
    program = promtool()
    assert program is not None
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, check=False, text=True, timeout=_SECONDS
    )
