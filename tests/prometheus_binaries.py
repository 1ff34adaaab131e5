"""Binaries of Prometheus and Alertmanager from Debian's packages, unpacked into the cache without root."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from stack.folders import alone_in

_CACHE: Final = Path(__file__).parents[1] / ".cache" / "prometheus"
_PACKAGES: Final = ("prometheus", "prometheus-alertmanager")
_SECONDS: Final = 300


@cache
def binary(name: str) -> str | None:
    """Return the path of a binary, which has the name of its package; None if it is unavailable. Concurrent
    calls wait for each other."""
    if found := shutil.which(name):
        return found
    with alone_in(_CACHE):
        kept = _CACHE / "usr/bin" / name
        if not kept.exists() and not (_CACHE / "cannot").exists():
            _fetch()
    return str(kept) if kept.exists() else None


def _fetch() -> None:
    """Fetch the packages with separate package lists, as `tests.promtool` does.

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
            ["apt-get", *options, "download", *_PACKAGES],
            ["sh", "-c", 'for package in *.deb; do dpkg-deb -x "$package" .; done'],
        ):
            subprocess.run(step, cwd=_CACHE, check=True, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        (_CACHE / "cannot").write_text(str(error), encoding="utf-8")
    for made in (*folder.values(), *(str(_CACHE / name) for name in ("etc", "lib", "var", "usr/share"))):
        shutil.rmtree(made, ignore_errors=True)
    for package in _CACHE.glob("*.deb"):
        package.unlink()
