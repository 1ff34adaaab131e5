"""Finds what selects a topic among thousands of selections, without asking each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from mirror.model.topics import TopicSelection

_T = TypeVar("_T")


class SelectionIndex(Generic[_T]):
    """Values by the topics that their selections match.

    Selections are kept under what every name that they match begins with, so that a name is tried only on
    those that begin as it does, and on those of which that is not known (`.*-orders`).
    """

    def __init__(self, selections: Iterable[tuple[TopicSelection, _T]]) -> None:
        self._under: dict[str, list[tuple[int, TopicSelection, _T]]] = {}
        for position, (selection, value) in enumerate(selections):
            for beginning in selection.beginnings:
                self._under.setdefault(beginning, []).append((position, selection, value))
        self._lengths = sorted({len(beginning) for beginning in self._under})

    def matching(self, topic: str) -> list[_T]:
        """Values whose selections match the topic, in the order in which they were given."""
        # A dict, since several beginnings of one expression may fit the name (`a.*|ab.*`).
        candidates = {
            position: (selection, value)
            for length in self._lengths
            if length <= len(topic)
            for position, selection, value in self._under.get(topic[:length], ())
        }
        return [value for _, (selection, value) in sorted(candidates.items()) if selection.matches(topic)]
