"""Lanes that have no broker at the moment, and the search for one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from mirror.copying.cluster import Cluster
from mirror.copying.live_lane import LiveLane
from mirror.errors import HeadraceError

_log = logging.getLogger(__name__)
_TICK_SECONDS: Final = 0.1


class LeaderSearch:
    """Asks for metadata of the lanes' topics, at most ten times a second, until every lane has been told.

    `found` is called for each lane after a refresh; it attaches the lane, or adds it here again.
    """

    def __init__(
        self, cluster: Cluster, topic_of: Callable[[LiveLane], str], found: Callable[[LiveLane], None]
    ) -> None:
        self._cluster = cluster
        self._topic_of = topic_of
        self._found = found
        self._lanes: dict[LiveLane, None] = {}
        self._is_running = False

    def add(self, lanes: Iterable[LiveLane]) -> None:
        """Search for these."""
        self._lanes.update(dict.fromkeys(lanes))
        if not self._is_running and self._lanes:
            self._is_running = True
            self._cluster.loop.spawn(self._search())

    def remove(self, lane: LiveLane) -> None:
        """Search for it no more."""
        self._lanes.pop(lane, None)

    async def _search(self) -> None:
        try:
            while self._lanes:
                try:
                    await self._cluster.refresh({self._topic_of(lane) for lane in self._lanes})
                except HeadraceError as error:
                    _log.info("%s: %s", self._cluster.name, error)
                else:
                    lanes, self._lanes = self._lanes, {}
                    for lane in lanes:
                        self._found(lane)
                if self._lanes:
                    await self._cluster.loop.sleep(_TICK_SECONDS)
        finally:
            self._is_running = False
