"""Reads the age of the first uncopied record of each partition, and the retention of its topic.

Ages and topic settings are read again after some minutes, or when the position changes. Each request covers
many partitions, and is followed by a pause of some seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Final, NamedTuple

import structlog

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.problems import reason_of
from mirror.instance.background_calls import CallPending
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition, WaitingRecord
from mirror.ports import Clock, TopicAdmin

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS: Final = 10.0
"""Interval between requests to one cluster."""
_FAILED_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 300.0
"""Time for which a result is valid."""
_AT_ONCE: Final = 200
_NOTHING: Final = WaitingRecord(None)

Place = tuple[ClusterRef, TopicPartition]


class _Looked(NamedTuple):
    """A result.

    `at`: time of the read (monotonic seconds).
    """

    offset: int
    at: float
    found: WaitingRecord


class WaitingAges:
    """Ages of the first uncopied records. Used by the leader's thread."""

    def __init__(self, topic_discovery: TopicDiscovery, clock: Clock) -> None:
        self._topic_discovery = topic_discovery
        self._clock = clock
        self._known: dict[Place, _Looked] = {}
        self._next: dict[ClusterRef, float] = {}

    def look(self, waiting: Mapping[Place, int]) -> None:
        """Request the ages of some of these records. Drop the ages of all other partitions.

        `waiting`: offset of the first uncopied record, by partition.
        """
        self._known = {place: age for place, age in self._known.items() if place in waiting}
        now = self._clock.monotonic()
        due: dict[ClusterRef, list[Place]] = {}
        for place, offset in waiting.items():
            if self._is_due(place, offset, now):
                due.setdefault(place[0], []).append(place)
        for cluster, places in sorted(due.items()):
            if now >= self._next.get(cluster, now):
                oldest = sorted(places, key=self._order)[:_AT_ONCE]
                self._ask(cluster, {place[1]: waiting[place] for place in oldest}, now)

    def of(self, cluster: ClusterRef, partition: TopicPartition, offset: int) -> WaitingRecord:
        """Return the timestamp of a record, and the retention of its topic. Unknown until they were read."""
        known = self._known.get((cluster, partition))
        if known is None:
            return _NOTHING
        return known.found if known.offset == offset else _NOTHING._replace(retention=known.found.retention)

    def _is_due(self, place: Place, offset: int, now: float) -> bool:
        known = self._known.get(place)
        return known is None or known.offset != offset or now - known.at >= _AGAIN_SECONDS

    def _order(self, place: Place) -> tuple[float, Place]:
        known = self._known.get(place)
        return (-inf if known is None else known.at), place

    def _ask(self, cluster: ClusterRef, places: Mapping[TopicPartition, int], now: float) -> None:
        self._next[cluster] = now + _PAUSE_SECONDS
        job = partial(_waiting, places=places)

        def failed(error: Exception) -> None:
            self._next[cluster] = now + _FAILED_SECONDS
            _log.info(
                "cannot read record ages", cluster=cluster, partitions=len(places), reason=reason_of(error)
            )

        try:
            with Bulkhead(failed, through=(CallPending,)):
                queries, found = self._topic_discovery.ask(cluster, "age of uncopied records", job)
                for place, offset in queries.items():
                    self._known[cluster, place] = _Looked(offset, now, found.get(place, _NOTHING))
        except CallPending:
            del self._next[cluster]


def _waiting(
    admin: TopicAdmin, places: Mapping[TopicPartition, int]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, WaitingRecord]]:
    """Return the ages, together with the request.

    A later call may receive the result of an earlier request.
    """
    return places, admin.first_records(places)
