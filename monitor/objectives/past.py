"""What was measured in a piece of the past, of topics and then of objectives, as columns. Pure.

A piece has thousands of topics, and several pieces are read a minute: no object is made for a topic.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final, NamedTuple, Protocol, TypeAlias

from mirror.model.topics import EVERY_TOPIC, TopicSelection
from monitor.burn.pieces import Piece
from monitor.latency import Source, selects

Place: TypeAlias = tuple[str, str, str]
"""Group of datastreams, source cluster, topic, or `EVERY_TOPIC`."""
_MOST_PLACES: Final = 200_000
"""Topics of which it is remembered who counts them."""


class Wanted(NamedTuple):
    """What is counted: of which topics, and from when on a record is late."""

    source: Source
    selection: TopicSelection
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TopicSums:
    """Topics as columns of one length: records, and by a number of milliseconds how many of them took longer.
    `stale_seconds`: likewise by topic the seconds in which some record had waited for longer, of topics of
    which one had."""

    places: Sequence[Place]
    records: Sequence[int]
    late: Mapping[int, Sequence[float]]
    stale_seconds: Mapping[int, Mapping[Place, float]]


class Past(Protocol):
    """What the mirror measured before, as it is stored."""

    def past(
        self, piece: Piece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicSums:
        """Every topic at most once, with a column for each of `milliseconds`; records of a source of
        `together` may be those of `EVERY_TOPIC`. Raises Unreachable, AnalyticsError."""
        ...


class TallyColumns(NamedTuple):
    """Of each objective that is counted, by its number: the fields of a `burn.tally.Tally`."""

    records: Sequence[int]
    late: Sequence[float]
    stale_seconds: Sequence[float]


def added(parts: Iterable[TallyColumns], onto: TallyColumns) -> TallyColumns:
    """Number by number, one part after the other."""
    records, late, stale = onto
    for one in parts:
        records = list(map(add, records, one.records))
        late = list(map(add, late, one.late))
        stale = list(map(add, stale, one.stale_seconds))
    return TallyColumns(records, late, stale)


class Counting:
    """What is counted, each with a number, and which topics count for which of them, which is remembered."""

    def __init__(self, wanted: frozenset[Wanted]) -> None:
        self.wanted = wanted
        self.numbers: Mapping[Wanted, int] = {one: number for number, one in enumerate(wanted)}
        self.ages = frozenset(one.milliseconds for one in wanted)
        self._by_source: defaultdict[tuple[str, str], list[tuple[int, TopicSelection]]] = defaultdict(list)
        for one, number in self.numbers.items():
            self._by_source[one.source].append((number, one.selection))
        self._of_place: dict[Place, tuple[int, ...]] = {}

    @property
    def nothing(self) -> TallyColumns:
        """Of a time in which nothing was measured."""
        size = len(self.numbers)
        return TallyColumns([0] * size, [0.0] * size, [0.0] * size)

    def sums(self, found: TopicSums, piece: Piece) -> TallyColumns:
        """Of several topics, the one that waited longest says how long it was stale, at least."""
        records, late, stale = ([*one] for one in self.nothing)
        late_of = [found.late[one.milliseconds] for one in self.numbers]
        ages = [one.milliseconds for one in self.numbers]
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
        length = (piece.until_ms - piece.since_ms) / 1_000
        return TallyColumns(
            array("q", records), array("d", late), array("d", [min(one, length) for one in stale])
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
