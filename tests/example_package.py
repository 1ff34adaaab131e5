"""Example package with plug-ins, built and installed like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE_SECONDS

_EXAMPLE: Final = Path(__file__).parent / "data" / "plug-in"


def install(folder: Path, wheels: Path) -> Path:
    """Build the wheel and install it with pip into the folder, which is returned.

    `wheels`: folder for the wheel.
    """
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    given = ["--no-index", "--no-deps", "--quiet", "--target", str(folder), "--find-links", str(wheels)]
    put = [sys.executable, "-m", "pip", "install", *given, "headrace-example"]
    for command in (build, put):
        subprocess.run(command, cwd=_EXAMPLE, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    return folder


def python_path(folder: Path) -> str:
    """Return a PYTHONPATH with the package installed below this folder, and the current PYTHONPATH."""
    installed = install(folder / "packages", folder / "wheels")
    return os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH", ""))))
