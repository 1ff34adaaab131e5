"""What is asked of the history of a datastream, within bounds."""

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
"""As long as the rollups are kept by default."""
MOST_LOAD_POINTS: Final = 20_000
MOST_LATENCY_HOURS: Final = 14 * 24
"""As long as measurements of the mirror are kept by default."""
MOST_LATENCY_POINTS: Final = 1_000


@dataclass(frozen=True)
class LoadsAsked:
    """Hours of some partitions of a source cluster, or of topics as a whole where none is named."""

    cluster: ClusterRef
    when: TimeRange
    places: Sequence[TopicPartition]
    topics: Collection[str]


@dataclass(frozen=True)
class LatencyAsked:
    """At most `points` steps of what a group of datastreams copied; `topics` None: of all that it has."""

    group: GroupName
    when: TimeRange
    points: int
    topics: Collection[str] | None


def no_history(_: LoadsAsked | LatencyAsked) -> NoReturn:
    """Where nothing keeps a history. Raises HistoryUnavailable."""
    raise HistoryUnavailable(
        "no history is kept: Pinot is not configured", advice="give [pinot] its broker and controller"
    )


def last_hours(now_ms: int, hours: int) -> TimeRange:
    """The running hour and those before it, `hours` together."""
    begin = now_ms // HOUR_MS * HOUR_MS - (hours - 1) * HOUR_MS
    return TimeRange(begin, now_ms + 1)


def places_named(datastream: Datastream, names: Sequence[str], hours: int) -> list[TopicPartition]:
    """The partitions of these names (`orders.created-0`), each once. Raises InvalidRequest for a name that is
    none or not of the datastream, and where they have too many points together."""
    if len(names) * hours > MOST_LOAD_POINTS:
        raise InvalidRequest(
            f"{counted(len(names), 'partition has', 'partitions have')} more than "
            f"{MOST_LOAD_POINTS} points in {counted(hours, 'hour')}",
            advice="ask for fewer partitions, or fewer hours",
        )
    return list(dict.fromkeys(_place(datastream, name) for name in names))


def _place(datastream: Datastream, name: str) -> TopicPartition:
    topic, dash, number = name.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise InvalidRequest(f"partition: {shown(name)} is none", advice="a name is like orders.created-0")
    if not datastream.selection.matches(topic):
        raise InvalidRequest(f"partition: {shown(topic)} is no topic of datastream {datastream.name}")
    return TopicPartition(topic, int(number))
