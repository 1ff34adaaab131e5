"""Numbers of hot partitions, by the current loads known to the leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from api.services import Services
from mirror.instance.loads.assessments import usable_of
from mirror.instance.loads.newest import ClusterLoads
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSource, hot_from
from mirror.model.topics import TopicPartition

HEAT: Final = "heat"
"""Subject of the query to other instances."""
Heat = Mapping[GroupName, Mapping[str, int]]
"""Number of hot partitions by topic, for groups with a known load; topics without hot partitions are
omitted."""
_READ: Final = TypeAdapter(dict[GroupName, dict[str, int]])


def own_heat(services: Services) -> Heat | None:
    """Return the heat of all groups with tasks; None if this instance does not lead."""
    status = services.status
    if not status.is_leading:
        return None
    assessments, now_ms = services.assessments(), services.clock.now_ms()
    hot = _HotPlaces(now_ms)
    found: dict[GroupName, dict[str, int]] = {}
    for task in services.plan().tasks:
        source = status.load_sources.get(task.group)
        known = status.known_loads(source) if source is not None else None
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
    """Partitions with a minimum load, computed once per source and bound."""

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
    """Parse the response of another instance; None: it does not lead. Raises ValueError."""
    return None if value is None else _READ.validate_python(value)
