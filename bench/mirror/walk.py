"""The way of a plain batch through the engine: every function that it enters, and how long the way is."""

from __future__ import annotations

from tests.walk import length_of, stays, steps, walk


def main() -> None:
    """Print the walk and its lengths."""
    file = ""
    for visit in walk():
        if visit.file != file:
            file = visit.file
            print(file)
        print(f"    {visit.function}")
    print()
    for what, files in (
        ("the map", [step.file for step in steps()]),
        ("all that is entered", stays(walk())),
    ):
        length = length_of(files)
        print(
            f"{what}: {length.files} files, {length.lines} lines of functions that are entered"
            f" ({length.file_lines} of the files), {length.returns} returns to a file left before"
        )
