"""Reads the backlog of uncopied partitions from their source clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.problems import reason_of
from mirror.instance.background_calls import CallPending
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import SourcePosition, TopicPartition
from mirror.ports import Clock, TopicAdmin

_log = structlog.get_logger(__name__)
_INTERVAL_SECONDS: Final = 5.0
_QUESTIONS_A_LOOK: Final = 4
_MOST_PARTITIONS: Final = 2_000
"""Maximum number of partitions to read per consumer group. The positions of others remain unknown."""

Route = tuple[ClusterRef, str]
"""A source cluster, and the consumer group to which a datastream commits its positions on that cluster."""


class Backlog:
    """Positions of uncopied partitions. Used by the leader's thread.

    Each tick refreshes the oldest positions with a few requests. If a source fails, its positions become
    unknown.
    """

    def __init__(self, topic_discovery: TopicDiscovery, clock: Clock) -> None:
        self._topic_discovery = topic_discovery
        self._clock = clock
        self._requested_at: dict[Route, float] = {}
        self._known: dict[Route, Mapping[TopicPartition, SourcePosition]] = {}

    def look(self, wanted: Mapping[Route, Sequence[TopicPartition]]) -> None:
        """Update the positions of the given partitions, and drop all others."""
        now = self._clock.monotonic()
        self._requested_at = {route: at for route, at in self._requested_at.items() if route in wanted}
        self._known = {route: known for route, known in self._known.items() if route in wanted}
        due = [
            partition
            for partition in wanted
            if now - self._requested_at.get(partition, -_INTERVAL_SECONDS) >= _INTERVAL_SECONDS
        ]
        for route in sorted(due, key=lambda cluster: self._requested_at.get(cluster, 0.0))[
            :_QUESTIONS_A_LOOK
        ]:
            self._ask(route, sorted(wanted[route])[:_MOST_PARTITIONS], now)

    def position(self, route: Route, partition: TopicPartition) -> SourcePosition | None:
        """Return the last known position; None if unknown."""
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
    """Return the current positions of lanes. Positions that a source does not return in time are omitted."""
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
