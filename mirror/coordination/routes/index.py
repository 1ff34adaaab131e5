"""Finds the topic selections that match a topic without testing every selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from mirror.model.topics import TopicSelection

_T = TypeVar("_T")


class SelectionIndex(Generic[_T]):
    """Index that finds all topic selections that match a topic.

    Selections are stored by the common prefix of the names that they match. A topic name is tested only with
    selections that have a matching prefix or no known prefix (such as `.*-orders`).
    """

    def __init__(self, selections: Iterable[tuple[TopicSelection, _T]]) -> None:
        self._under: dict[str, list[tuple[int, TopicSelection, _T]]] = {}
        for position, (selection, value) in enumerate(selections):
            for beginning in selection.beginnings:
                self._under.setdefault(beginning, []).append((position, selection, value))
        self._lengths = sorted({len(beginning) for beginning in self._under})

    def matching(self, topic: str) -> list[_T]:
        """Return the values of the selections that match the topic, in insertion order."""
        # A dict, because several prefixes of one expression may match the name (`a.*|ab.*`).
        candidates = {
            position: (selection, value)
            for length in self._lengths
            if length <= len(topic)
            for position, selection, value in self._under.get(topic[:length], ())
        }
        return [value for _, (selection, value) in sorted(candidates.items()) if selection.matches(topic)]
