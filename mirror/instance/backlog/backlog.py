"""Reads how many records of uncopied partitions wait at the source, and how old their first records are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, NamedTuple

from mirror.bulkheads import Bulkhead
from mirror.instance.background_calls import CallPending
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef
from mirror.model.reasons import reason_of
from mirror.model.topics import SourcePosition, TopicPartition, WaitingRecord
from mirror.ports import Clock, TopicAdmin

_log = get_logger(__name__)
_INTERVAL_SECONDS: Final = 5.0
_QUESTIONS_A_LOOK: Final = 4
_MOST_PARTITIONS: Final = 2_000
"""Maximum number of partitions to read per consumer group. Other positions remain unknown."""

Route = tuple[ClusterRef, str]
"""A source cluster, and the consumer group to which a datastream commits its positions there."""


class Backlog:
    """Offsets at the source of partitions that are not copied. Used by the leader's thread. Each tick
    refreshes the oldest offsets with a few requests. If a source fails, its offsets become unknown."""

    def __init__(self, topic_discovery: TopicDiscovery, clock: Clock) -> None:
        self._topic_discovery = topic_discovery
        self._clock = clock
        self._requested_at: dict[Route, float] = {}
        self._known: dict[Route, Mapping[TopicPartition, SourcePosition]] = {}

    def refresh(self, wanted: Mapping[Route, Sequence[TopicPartition]]) -> None:
        """Update the source positions of the given partitions, and drop all others."""
        now = self._clock.monotonic()
        self._requested_at = {route: at for route, at in self._requested_at.items() if route in wanted}
        self._known = {route: known for route, known in self._known.items() if route in wanted}
        due = [
            route
            for route in wanted
            if now - self._requested_at.get(route, -_INTERVAL_SECONDS) >= _INTERVAL_SECONDS
        ]
        due.sort(key=lambda route: self._requested_at.get(route, 0.0))
        for route in due[:_QUESTIONS_A_LOOK]:
            self._ask(route, sorted(wanted[route])[:_MOST_PARTITIONS], now)

    def position(self, route: Route, partition: TopicPartition) -> SourcePosition | None:
        """Return the last known source position of a partition, or None."""
        return self._known.get(route, {}).get(partition)

    def _ask(self, route: Route, partitions: Sequence[TopicPartition], now: float) -> None:
        source, group = route
        job = partial(_positions, group=group, partitions=partitions)
        self._requested_at[route] = now
        positions: Mapping[TopicPartition, SourcePosition] | None = None
        try:
            with Bulkhead(partial(_log_failure, route), through=(CallPending,)):
                positions = self._topic_discovery.ask(source, f"positions of {group}", job)
        except CallPending:
            del self._requested_at[route]
            return
        if positions is None:
            self._known.pop(route, None)
        else:
            self._known[route] = positions


def positions_of(
    lanes: Mapping[LaneKey, LaneSpec], topic_discovery: TopicDiscovery
) -> Mapping[LaneKey, SourcePosition]:
    """Return the current source positions of lanes. Omits lanes whose source does not respond in time."""
    routes: dict[Route, dict[TopicPartition, LaneKey]] = {}
    for key, spec in sorted(lanes.items()):
        routes.setdefault((spec.source, spec.consumer_group), {})[key.partition] = key
    found: dict[LaneKey, SourcePosition] = {}
    for (source, group), keys in routes.items():
        job = partial(_positions, group=group, partitions=list(keys)[:_MOST_PARTITIONS])
        with Bulkhead(partial(_log_failure, (source, group))):
            answer = topic_discovery.ask(source, f"backlog of {group}", job)
            found |= {keys[place]: position for place, position in answer.items() if place in keys}
    return found


def _log_failure(route: Route, error: Exception) -> None:
    source, group = route
    _log.info("cannot read positions", cluster=source, group=group, reason=reason_of(error))


def _positions(
    admin: TopicAdmin, group: str, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, SourcePosition]:
    return admin.positions(group, partitions)


_PAUSE_SECONDS: Final = 10.0
"""Minimum seconds between requests for record ages to one cluster."""
_FAILED_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 300.0
"""Seconds for which a record age is valid."""
_AT_ONCE: Final = 200
_NOTHING: Final = WaitingRecord(None)

Place = tuple[ClusterRef, TopicPartition]


class _KnownAge(NamedTuple):
    """Age of an uncopied record, as read from a cluster. `at`: time of the read (monotonic seconds)."""

    offset: int
    at: float
    found: WaitingRecord


class WaitingAges:
    """Caches the age of the first uncopied record of each partition. Used by the leader's thread."""

    def __init__(self, topic_discovery: TopicDiscovery, clock: Clock) -> None:
        self._topic_discovery = topic_discovery
        self._clock = clock
        self._known: dict[Place, _KnownAge] = {}
        self._next: dict[ClusterRef, float] = {}

    def refresh(self, waiting: Mapping[Place, int]) -> None:
        """Request the ages of some of the given records. Drop the ages of all records that are not given.
        `waiting`: maps each partition to the offset of its first uncopied record."""
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
        """Return the timestamp of a record and the retention of its topic, which are unknown until read."""
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
                    self._known[cluster, place] = _KnownAge(offset, now, found.get(place, _NOTHING))
        except CallPending:
            del self._next[cluster]


def _waiting(
    admin: TopicAdmin, places: Mapping[TopicPartition, int]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, WaitingRecord]]:
    """Return the requested offsets, with the timestamp and retention of the first record at or after each."""
    return places, admin.first_records(places)
