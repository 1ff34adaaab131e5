"""Files of the product that a batch, and the creation of a datastream, pass through."""

from __future__ import annotations

from tests.walk import WALKS, described


def main() -> None:
    """Print each walk and its length."""
    for name, walk in WALKS.items():
        print(f"{name}\n\n{described(walk())}\n")
