"""Determines which sources have measurements that all belong to one datastream. Pure.

A group copies only topics that its datastreams select. If a group has a single datastream and its selection
does not change, all measurements of the group belong to this datastream. Such datastreams can be queried
without separating topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror.model.topics import TopicSelection
from monitor.latency import ObjectiveSubject, Source

SETTLED_MS: Final = 120_000
"""Time in ms after a change of the selection by which every instance has stopped the former lanes.

This includes instances without a connection to ZooKeeper.
"""
_MOST_APART_MS: Final = 60_000
"""Maximum ms between two updates; after a longer gap, the selection may have changed in between."""


class SourcesAlone:
    """Topic selections of datastreams that are the only ones in their group, and since when. Not
    thread-safe."""

    def __init__(self) -> None:
        self._since: dict[Source, tuple[TopicSelection, int]] = {}
        self._looked_ms = 0

    def update(self, subjects: Iterable[ObjectiveSubject], now_ms: int) -> None:
        """Update the selections from the datastreams of an evaluation. `now_ms`: current time (epoch ms)."""
        is_near = 0 <= now_ms - self._looked_ms <= _MOST_APART_MS
        before, self._looked_ms = self._since if is_near else {}, now_ms
        self._since = {}
        for subject in subjects:
            if subject.is_alone:
                known = before.get(subject.source)
                if known is None or known[0] != subject.selection:
                    known = subject.selection, now_ms + SETTLED_MS
                self._since[subject.source] = known

    def since(self, moment_ms: int) -> frozenset[Source]:
        """Return the sources whose measurements have all belonged to one datastream since `moment_ms` (epoch
        ms)."""
        return frozenset(source for source, (_, begin_ms) in self._since.items() if begin_ms <= moment_ms)
