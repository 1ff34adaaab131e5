"""Count the lines of Python in the wheel: `python scripts/product_lines.py [--json]`.

Reads the file list of a wheel built in a temporary folder, so that it counts exactly what is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("files", "lines", "lines that are not blank")


def counted(wheel: Path) -> dict[str, Counter[str]]:
    """Return the line counts of each package in a wheel."""
    found: dict[str, Counter[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                lines = archive.read(name).decode("utf-8").splitlines()
                package = name.removeprefix("headrace/wings/").partition("/")[0]
                numbers = (1, len(lines), sum(bool(line.strip()) for line in lines))
                found.setdefault(package, Counter()).update(dict(zip(COLUMNS, numbers, strict=True)))
    return found


def built(folder: Path) -> Path:
    """Build the pure-Python wheel of Headrace, and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | {"HEADRACE_WHEEL": "pure"}, check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(arguments: list[str]) -> int:
    """Print the line counts of each package and their sum."""
    with tempfile.TemporaryDirectory() as folder:
        packages = counted(built(Path(folder)))
    packages["all"] = sum(packages.values(), Counter())
    if "--json" in arguments:
        print(json.dumps(packages, indent=2))
        return 0
    for package, counts in packages.items():
        print(f"{package:12}", *(f"{counts[column]:>8,} {column}" for column in COLUMNS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
