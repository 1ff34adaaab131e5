"""Measures the architecture: sizes, folders and imports, from the syntax trees.

    python -m scripts.architecture floors    # files, rooms and floors of each package
    python -m scripts.architecture twins     # pairs of classes with seven or more fields of the same name

A room is a folder or a module directly in a package. The floors of a package are the rooms in the longest chain
of imports between its rooms. Fields are the names that the body of a class declares with a type, without
inherited ones.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (
    "mirror",
    "pinot",
    "pmp",
    "assigner",
    "monitor",
    "api",
    "headrace",
    "headrace_dev",
    "stack",
)
SHARED_FIELDS: Final = 7
"""Number of common fields that makes two classes twins."""


class Size(NamedTuple):
    """Number of files, subpackages (rooms) and import levels (floors) of a package."""

    files: int
    rooms: int
    floors: int


class Twins(NamedTuple):
    """Two classes that have many fields in common, each as `file:name`."""

    first: str
    second: str
    fields: tuple[str, ...]


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree. Cached, because walking the trees of all files takes a
    second."""
    return list(ast.walk(tree_of(file)))


def size_of(package: str) -> Size:
    """Return the size of a package."""
    files = sorted((ROOT / package).rglob("*.py"))
    rooms = {room_of(file) for file in files} - {None}
    below: dict[str | None, set[str | None]] = {}
    for file in files:
        below.setdefault(room_of(file), set()).update(_rooms_used(file, package, rooms))

    @cache
    def floor(room: str | None) -> int:
        return 1 + max((floor(other) for other in below[room] - {room, None}), default=0)

    return Size(len(files), len(rooms), max(map(floor, rooms)))


def room_of(file: Path) -> str | None:
    """Return the subpackage (room) of a file; None for the `__init__.py` of the package."""
    first = file.relative_to(ROOT).parts[1]
    return None if first == "__init__.py" else first.removesuffix(".py")


def _rooms_used(file: Path, package: str, rooms: set[str | None]) -> Iterator[str]:
    """Yield the subpackages (rooms) that a file imports, also within functions."""
    for node in nodes_of(file):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            wing, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if wing == package and room in rooms:
                yield room


def twins(least: int = SHARED_FIELDS) -> list[Twins]:
    """Return the pairs of classes that have fields in common, most common fields first."""
    classes = [found for package in PACKAGES for found in _classes_of(package)]
    found = [
        Twins(first, second, tuple(sorted(fields & others)))
        for (first, fields), (second, others) in combinations(classes, 2)
        if len(fields & others) >= least
    ]
    return sorted(found, key=lambda pair: (-len(pair.fields), pair))


def _classes_of(package: str) -> Iterator[tuple[str, set[str]]]:
    for file in sorted((ROOT / package).rglob("*.py")):
        for node in nodes_of(file):
            if isinstance(node, ast.ClassDef):
                yield f"{file.relative_to(ROOT)}:{node.name}", _fields_of(node)


def _fields_of(node: ast.ClassDef) -> set[str]:
    return {
        field.target.id
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def main(arguments: list[str]) -> int:
    """Print the requested figures; return the exit code."""
    if arguments == ["floors"]:
        print(f"{'package':<12}{'files':>6}{'rooms':>6}{'floors':>7}")
        for package in PACKAGES:
            size = size_of(package)
            print(f"{package:<12}{size.files:>6}{size.rooms:>6}{size.floors:>7}")
        return 0
    if arguments == ["twins"]:
        pairs = twins()
        for pair in pairs:
            print(f"{len(pair.fields):>3}  {pair.first}  {pair.second}")
        print(f"{len(pairs)} pairs share {SHARED_FIELDS} or more fields")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
