"""Lists the source files through which a batch, the creation of a datastream, a sample and a breach pass."""

from __future__ import annotations

from tests.tracing import described
from tests.walk import WALKS


def main() -> None:
    """Print the files of each path, and their number."""
    for name, walk in WALKS.items():
        print(f"{name}\n\n{described(walk())}\n")
