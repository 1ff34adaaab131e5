"""Measurements of a past time range as columns, with one row for each topic and then for each objective.
Pure.

Several time ranges with thousands of topics are read each minute, so an object for each topic would be too
slow.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final, NamedTuple, Protocol, TypeAlias

from mirror.model.topics import EVERY_TOPIC, TopicSelection
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Source, selects

Place: TypeAlias = tuple[str, str, str]
"""Group of datastreams, source cluster, topic, or `EVERY_TOPIC`."""
_MOST_PLACES: Final = 200_000
"""Maximum number of topics with a cached list of objectives."""


class RequiredCount(NamedTuple):
    """Count of late records that an objective requires: records of the selected topics later than
    `milliseconds`."""

    source: Source
    selection: TopicSelection
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TopicLatencySums:
    """Measurements of topics over a past time range, as columns of equal length.

    `records`: number of records. `late`: number of records above the limit, by limit in ms. `stale_seconds`:
    time for which the oldest waiting record was older than the limit, by limit and topic; topics without such
    a time are missing.
    """

    places: Sequence[Place]
    records: Sequence[int]
    late: Mapping[int, Sequence[float]]
    stale_seconds: Mapping[int, Mapping[Place, float]]


class PastMeasurements(Protocol):
    """Interface to stored measurements of past time ranges."""

    def past(
        self, period: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        """Return the sums of each topic, with a column of late records for each latency limit.

        `milliseconds`: latency limits. A source in `together` may have a single row, with the topic
        `EVERY_TOPIC`. Raises Unreachable, AnalyticsError.
        """
        ...


class TallyColumns(NamedTuple):
    """The fields of `burn.tally.LatencyTally` as columns. A count has the row of its number in the
    `CountPlan`."""

    records: Sequence[int]
    late: Sequence[float]
    stale_seconds: Sequence[float]


def added(parts: Iterable[TallyColumns], onto: TallyColumns) -> TallyColumns:
    """Add up the columns of several parts, row by row."""
    records, late, stale = onto
    for part in parts:
        records = list(map(add, records, part.records))
        late = list(map(add, late, part.late))
        stale = list(map(add, stale, part.stale_seconds))
    return TallyColumns(records, late, stale)


class CountPlan:
    """Numbers the required counts, and determines in which counts each topic is included."""

    def __init__(self, wanted: frozenset[RequiredCount]) -> None:
        self.wanted = wanted
        self.numbers: Mapping[RequiredCount, int] = {
            required: number for number, required in enumerate(wanted)
        }
        self.ages = frozenset(required.milliseconds for required in wanted)
        self._by_source: defaultdict[tuple[str, str], list[tuple[int, TopicSelection]]] = defaultdict(list)
        for required, number in self.numbers.items():
            self._by_source[required.source].append((number, required.selection))
        self._of_place: dict[Place, tuple[int, ...]] = {}

    @property
    def nothing(self) -> TallyColumns:
        """Columns for a time range without measurements."""
        size = len(self.numbers)
        return TallyColumns([0] * size, [0.0] * size, [0.0] * size)

    def sums(self, found: TopicLatencySums, period: TimeRangePiece) -> TallyColumns:
        """Sum up the measurements of a time range for each required count.

        The stale time of a count is the longest stale time of one topic, so it is a lower bound.
        """
        records, late, stale = ([*values] for values in self.nothing)
        late_of = [found.late[required.milliseconds] for required in self.numbers]
        ages = [required.milliseconds for required in self.numbers]
        for row, (count, numbers) in enumerate(
            zip(found.records, self._counted_for(found.places), strict=True)
        ):
            for number in numbers:
                records[number] += count
                late[number] += late_of[number][row]
        for age, by_place in found.stale_seconds.items():
            for waited, numbers in zip(by_place.values(), self._counted_for([*by_place]), strict=True):
                for number in numbers:
                    if ages[number] == age:
                        stale[number] = max(stale[number], waited)
        length = (period.until_ms - period.since_ms) / 1_000
        return TallyColumns(
            array("q", records), array("d", late), array("d", [min(age, length) for age in stale])
        )

    def _counted_for(self, places: Sequence[Place]) -> list[tuple[int, ...]]:
        known = list(map(self._of_place.get, places))
        if None in known and len(self._of_place) > _MOST_PLACES:
            self._of_place.clear()
        return [
            self._looked_up(place) if numbers is None else numbers
            for place, numbers in zip(places, known, strict=True)
        ]

    def _looked_up(self, place: Place) -> tuple[int, ...]:
        group, cluster, topic = place
        counted = self._by_source.get((group, cluster), ())
        is_any = topic == EVERY_TOPIC
        numbers = tuple(number for number, selection in counted if is_any or selects(selection, topic))
        self._of_place[place] = numbers
        return numbers
