"""Numbers with their nouns, for sentences that people read."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`: for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
