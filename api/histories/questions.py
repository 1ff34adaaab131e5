"""Queries for the history of a datastream, with limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from mirror.errors import HistoryUnavailable, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.wording import counted
from pinot.time_range import TimeRange

HOUR_MS: Final = 3_600_000
MOST_PARTITIONS: Final = 50
MOST_LOAD_HOURS: Final = 42 * 24
"""Default retention of the rollups."""
MOST_LOAD_POINTS: Final = 20_000
MOST_LATENCY_HOURS: Final = 14 * 24
"""Default retention of the mirror's measurements."""
MOST_LATENCY_POINTS: Final = 1_000


@dataclass(frozen=True)
class LoadHistoryQuery:
    """Query for hourly loads of partitions of a source cluster, or of whole topics if no partition is
    given."""

    cluster: ClusterRef
    when: TimeRange
    places: Sequence[TopicPartition]
    topics: Collection[str]


@dataclass(frozen=True)
class LatencyHistoryQuery:
    """Query for at most `points` steps of a group's latency; `topics` None: all of its topics."""

    group: GroupName
    when: TimeRange
    points: int
    topics: Collection[str] | None


def no_history(_: LoadHistoryQuery | LatencyHistoryQuery) -> NoReturn:
    """Reject a query if no history is configured. Raises HistoryUnavailable."""
    raise HistoryUnavailable(
        "no history: Pinot is not configured", advice="set broker and controller in [pinot]"
    )


def last_hours(now_ms: int, hours: int) -> TimeRange:
    """Return the time range of the current hour and the hours before it, `hours` in total."""
    begin = now_ms // HOUR_MS * HOUR_MS - (hours - 1) * HOUR_MS
    return TimeRange(begin, now_ms + 1)


def places_named(datastream: Datastream, names: Sequence[str], hours: int) -> list[TopicPartition]:
    """Parse names of partitions (`orders.created-0`) and drop duplicates. Raises InvalidRequest for a name
    that is invalid or not part of the datastream, and if the partitions have too many points in total."""
    if len(names) * hours > MOST_LOAD_POINTS:
        raise InvalidRequest(
            f"{counted(len(names), 'partition has', 'partitions have')} more than "
            f"{MOST_LOAD_POINTS} points in {counted(hours, 'hour')}",
            advice="query fewer partitions or fewer hours",
        )
    return list(dict.fromkeys(_place(datastream, name) for name in names))


def _place(datastream: Datastream, name: str) -> TopicPartition:
    topic, dash, number = name.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise InvalidRequest(f"invalid partition {shown(name)}", advice="use a name such as orders.created-0")
    if not datastream.selection.matches(topic):
        raise InvalidRequest(f"{shown(topic)} is not a topic of datastream {datastream.name}")
    return TopicPartition(topic, int(number))
