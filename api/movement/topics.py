"""Partitions of one instance that are not OK, summed by topic to keep responses small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from api.movement.verdicts import is_idle, judged, judged_uncopied
from api.services import Services
from mirror.model import bounds
from mirror.model.identifiers import GroupName
from monitor.movement.states import MovementState
from monitor.movement.summary import Movement, PartitionMovement, movement_of

_MOST_TOPICS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TopicMovement:
    """Movement of one topic of a group of datastreams."""

    group: GroupName
    topic: str
    movement: Movement


_TOLD: Final = TypeAdapter(list[TopicMovement])


def own_topics(services: Services) -> list[TopicMovement]:
    """Return the topics of this instance's lanes and, on the leader, of uncopied partitions."""
    found: dict[tuple[GroupName, str], list[PartitionMovement]] = defaultdict(list)
    for group, one in _partitions(services):
        found[group, one.partition.topic].append(one)
    topics = [TopicMovement(*key, movement_of(found[key])) for key in sorted(found)]
    return [one for one in topics if one.movement.states]


def _partitions(services: Services) -> Iterator[tuple[GroupName, PartitionMovement]]:
    status, now, now_ms = services.status, services.clock.monotonic(), services.clock.now_ms()
    for lane in status.in_time.others.values():
        one = judged(lane, now)
        if one.state is MovementState.OK:
            continue
        since_ms = None if one.since is None else int(now_ms - (now - one.since) * 1000)
        is_still = is_idle(lane, one, now)
        yield lane.spec.key.group, PartitionMovement(lane.spec.key.partition, one, since_ms, is_still)
    for idle in status.uncopied:
        missing = idle.what
        found = judged_uncopied(idle, now)
        is_still = idle.lag_records == 0
        yield missing.group, PartitionMovement(missing.partition, found, missing.since_ms, is_still)


def topics_document(topics: list[TopicMovement]) -> Any:
    """Return the topics as JSON-ready values."""
    return _TOLD.dump_python(topics, mode="json")


def topics_read(value: Any) -> list[TopicMovement]:
    """Parse the topics reported by another instance; ignores unknown fields. Raises ValueError,
    InvalidRequest."""
    return _TOLD.validate_python(bounds.sequence("the reported topics", value, _MOST_TOPICS))
