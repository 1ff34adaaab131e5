"""Sources of which all measurements are of one datastream, so that topics need not be told apart. Pure.

Only what a datastream selects is copied for its group. So where no other datastream is of the group, and the
selection stays as it is, whatever is measured is of topics that it selects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror.model.topics import TopicSelection
from monitor.latency import Source, Subject

SETTLED_MS: Final = 120_000
"""By then lanes of what was selected before are released everywhere, also where an instance has lost
ZooKeeper meanwhile."""
_MOST_APART_MS: Final = 60_000
"""Between two looks: what was selected meanwhile is not known after a longer time."""


class SourcesAlone:
    """Notes at every look what is selected. Not for several threads."""

    def __init__(self) -> None:
        self._since: dict[Source, tuple[TopicSelection, int]] = {}
        self._looked_ms = 0

    def look(self, subjects: Iterable[Subject], now_ms: int) -> None:
        """Take in every datastream that is judged, at a moment in epoch milliseconds."""
        is_near = 0 <= now_ms - self._looked_ms <= _MOST_APART_MS
        before, self._looked_ms = self._since if is_near else {}, now_ms
        self._since = {}
        for one in subjects:
            if one.is_alone:
                known = before.get(one.source)
                if known is None or known[0] != one.selection:
                    known = one.selection, now_ms + SETTLED_MS
                self._since[one.source] = known

    def since(self, moment_ms: int) -> frozenset[Source]:
        """Those of which that has been so all the time since a moment."""
        return frozenset(source for source, (_, begin_ms) in self._since.items() if begin_ms <= moment_ms)
