"""Path of a plain batch through the engine: each function entered, and the length of the path."""

from __future__ import annotations

from tests.walk import length_of, stays, steps, walk


def main() -> None:
    """Print the path and its length."""
    file = ""
    for visit in walk():
        if visit.file != file:
            file = visit.file
            print(file)
        print(f"    {visit.function}")
    print()
    for label, files in (
        ("the map", [step.file for step in steps()]),
        ("all files entered", stays(walk())),
    ):
        length = length_of(files)
        print(
            f"{label}: {length.files} files, {length.lines} lines of functions that are entered"
            f" ({length.file_lines} of the files), {length.returns} returns to a file left before"
        )
