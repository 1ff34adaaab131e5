"""Sums over the lanes of each topic on one instance, and numbers of hot partitions.

Instances send these sums to each other for the overview.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from api.services import Services
from mirror.instance.loads.assessments import usable_of
from mirror.instance.loads.observations import ClusterLoads
from mirror.model import bounds
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource, hot_from
from mirror.model.metrics import SHOWN_OF_LANES
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import LaneRate

SUMS: Final = "sums"
"""Name of the query for lane sums, sent to other instances."""
_MOST_TOPICS: Final = 1_000_000
STAGES: Final = ("wait_ms", "fetch_ms", "queue_ms", "produce_ms")
"""Stages of the latency of batches.

Stages: at the source, in transfer, in the mirror's queue, and until acknowledged.
"""
_WAIT, _FETCH, _QUEUE, _PRODUCE = (SHOWN_OF_LANES.index(name) for name in STAGES)
_BATCHES, _PASSED = (SHOWN_OF_LANES.index(name) for name in ("batches", "passthrough_batches"))
_SHOWN: Final = len(SHOWN_OF_LANES)

_NO_STAGES: Final = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class TopicSums:
    """Sums over the lanes of one topic of a group. `idle`: number of its uncopied partitions.

    `unmeasured`: number of lanes with unknown rate. `unjudged`: number of lanes and partitions with unknown
    lag. `oldest_ms`: age of the oldest waiting record whose age is known, None if all ages are unknown.
    `counted_ms`: `oldest_ms` without lanes whose oldest record does not count against objectives. `batches`:
    batches per second. `stage_ms`: for each of `STAGES`, total time that the batches of one second spent in
    it.
    """

    group: GroupName
    topic: str
    lanes: int = 0
    idle: int = 0
    bytes_per_second: float = 0.0
    unmeasured: int = 0
    lag_records: int = 0
    oldest_ms: int | None = None
    counted_ms: int | None = None
    unjudged: int = 0
    batches: float = 0.0
    stage_ms: tuple[float, float, float, float] = _NO_STAGES

    def add(self, other: TopicSums) -> None:
        """Add the sums of the same topic from another instance."""
        self.lanes += other.lanes
        self.idle += other.idle
        self.bytes_per_second += other.bytes_per_second
        self.unmeasured += other.unmeasured
        self.lag_records += other.lag_records
        self.unjudged += other.unjudged
        self._add_batches(other.batches, other.stage_ms)
        self.oldest_ms = _older(self.oldest_ms, other.oldest_ms)
        self.counted_ms = _older(self.counted_ms, other.counted_ms)

    def add_lane(
        self, rate: LaneRate | None, lag: tuple[int | None, int | None], *, is_exempt: bool = False
    ) -> None:
        """Add a lane to the sums of its topic. `rate`: None if the lane has not measured anything yet.
        `is_exempt`: the lane's oldest waiting record does not count against objectives."""
        self.lanes += 1
        self._add_lag(*lag)
        if not is_exempt:
            self.counted_ms = _older(self.counted_ms, lag[1])
        if rate is None:
            self.unmeasured += 1
            return
        self.bytes_per_second += rate.bytes_per_second
        shown = rate.shown
        if len(shown) == _SHOWN:
            stages = shown[_WAIT], shown[_FETCH], shown[_QUEUE], shown[_PRODUCE]
            self._add_batches(shown[_BATCHES] + shown[_PASSED], stages)

    def add_idle(self, lag_records: int | None) -> None:
        """Add an uncopied partition to the sums of its topic."""
        self.idle += 1
        self._add_lag(lag_records, None)

    def _add_lag(self, records: int | None, age_ms: int | None) -> None:
        if records is None or (records and age_ms is None):
            self.unjudged += 1
        self.lag_records += records or 0
        if age_ms is not None and (self.oldest_ms is None or age_ms > self.oldest_ms):
            self.oldest_ms = age_ms

    def _add_batches(self, batches: float, stage_ms: tuple[float, float, float, float]) -> None:
        self.batches += batches
        # Unrolled for speed: a page waits for one call per lane.
        wait, fetch, queue, produce = self.stage_ms
        more_wait, more_fetch, more_queue, more_produce = stage_ms
        self.stage_ms = wait + more_wait, fetch + more_fetch, queue + more_queue, produce + more_produce


def _older(age_ms: int | None, other_ms: int | None) -> int | None:
    """Return the greater of two ages. If one is unknown, return the other; None if both are."""
    if age_ms is None or other_ms is None:
        return other_ms if age_ms is None else age_ms
    return max(age_ms, other_ms)


_TOLD: Final = TypeAdapter(list[TopicSums])


def own_sums(services: Services) -> list[TopicSums]:
    """Return the sums of each topic over this instance's lanes and, on the leader, over uncopied
    partitions."""
    found: dict[tuple[GroupName, str], TopicSums] = {}
    now_ms = services.clock.now_ms()
    for key, lane in services.status.lanes.items():
        place = key.group, key.partition.topic
        sums = found.get(place) or found.setdefault(place, TopicSums(*place))
        lag = lane.lag
        is_exempt = lag[1] is not None and lane.spec.exemption.covers(now_ms - lag[1])
        sums.add_lane(lane.rate, lag, is_exempt=is_exempt)
    for idle in services.status.uncopied:
        place = idle.what.group, idle.what.partition.topic
        sums = found.get(place) or found.setdefault(place, TopicSums(*place))
        sums.add_idle(idle.lag_records)
    return [found[place] for place in sorted(found)]


def sums_document(sums: list[TopicSums]) -> Any:
    """Return lane sums as JSON-ready values."""
    return _TOLD.dump_python(sums, mode="json")


def sums_read(value: Any) -> list[TopicSums]:
    """Parse the lane sums that another instance reports. Raises ValueError, InvalidRequest.

    Unknown fields are ignored.
    """
    return _TOLD.validate_python(bounds.sequence("the reported sums", value, _MOST_TOPICS))


HEAT: Final = "heat"
"""Name of the query for hot partitions, sent to other instances."""
Heat = Mapping[GroupName, Mapping[str, int]]
"""Number of hot partitions by topic, for groups with a known load.

Topics without hot partitions are omitted.
"""
_READ: Final = TypeAdapter(dict[GroupName, dict[str, int]])


def own_heat(services: Services) -> Heat | None:
    """Count the hot partitions of each topic of each group; None if this instance does not lead."""
    status = services.status
    if not status.is_leading:
        return None
    assessments, now_ms = services.assessments(), services.clock.now_ms()
    hot = _HotPlaces(now_ms)
    found: dict[GroupName, dict[str, int]] = {}
    for task in services.plan().tasks:
        source = status.loads.sources.get(task.group)
        known = status.loads.known(source) if source is not None else None
        usable = usable_of(assessments.get(task.group), services.usable_bytes_per_second)
        if source is None or known is None or usable is None:
            continue
        if task.group not in found and any(place in known.loads for place in task.partitions):
            found[task.group] = {}
        for place in hot.of(source, known, hot_from(usable)) & task.partitions:
            topics = found.setdefault(task.group, {})
            topics[place.topic] = topics.get(place.topic, 0) + 1
    return found


class _HotPlaces:
    """Cache of the partitions of a load source whose load is at least a minimum."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._found: dict[tuple[LoadSource, float], frozenset[TopicPartition]] = {}

    def of(self, source: LoadSource, known: ClusterLoads, least: float) -> frozenset[TopicPartition]:
        if (source, least) not in self._found:
            heavy = (place for place, load in known.loads.items() if load.bytes_per_second >= least)
            self._found[source, least] = frozenset(
                place for place in heavy if known.of(place, self._now_ms) is not None
            )
        return self._found[source, least]


def heat_read(value: Any) -> Heat | None:
    """Parse the numbers of hot partitions from another instance; None if it does not lead. Raises
    ValueError."""
    return None if value is None else _READ.validate_python(value)
