"""Requests end offsets of partitions that are not fetched because of a quota or throttling.

Without fetch responses, ListOffsets requests on a separate connection keep the lag known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mirror.client.cluster import Cluster
from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.protocol.control.offsets import LATEST, Answers
from mirror.replication.context import EngineContext
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.reports.measurements import lacks_end

_log = get_logger(__name__)
_SECONDS: Final = 5.0
_MOST: Final = 2_000
"""Maximum number of partitions per request. More partitions need several requests."""


class EndWatch:
    """Requests end offsets, with one request at a time for each source cluster and isolation level. `heard`:
    called with a lane, its end offset, and the time of the request (monotonic seconds)."""

    def __init__(
        self, context: EngineContext, lanes: LaneRegistry, heard: Callable[[Lane, int, float], None]
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._heard = heard
        self._asking: set[tuple[str, bool]] = set()

    def request(self, lanes: Iterable[Lane]) -> None:
        """Request the end offsets of the given lanes' partitions in the background."""
        lanes_by_source: dict[tuple[str, bool], list[Lane]] = {}
        for lane in lanes:
            lanes_by_source.setdefault((lane.spec.source, lane.read.rules.read_committed), []).append(lane)
        for place, found in lanes_by_source.items():
            if place not in self._asking:
                self._asking.add(place)
                found.sort(key=lambda lane: lane.read.answered_at)
                self._context.loop.spawn(self._ask(place, found[:_MOST]))

    async def _ask(self, place: tuple[str, bool], lanes: Sequence[Lane]) -> None:
        source: Cluster = self._lanes.source(lanes[0]).cluster
        places = dict.fromkeys((lane.key.partition for lane in lanes), LATEST)
        requested_at = self._context.loop.now()
        try:
            ends: Answers = await source.offsets(places, committed=place[1], seconds=_SECONDS)
        except Exception as error:  # noqa: BLE001 - the next measurement retries
            _log.debug("end offsets of waiting partitions unknown", cluster=source.name, reason=str(error))
        else:
            self._note(lanes, ends, requested_at)
        finally:
            self._asking.discard(place)

    def _note(self, lanes: Sequence[Lane], ends: Answers, requested_at: float) -> None:
        for lane in lanes:
            end = ends[lane.key.partition]
            if lacks_end(lane) and not end.error and self._lanes.by_key.get(lane.key) is lane:
                self._heard(lane, end.offset, requested_at)
