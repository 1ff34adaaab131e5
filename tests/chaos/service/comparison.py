"""Comparison of one partition at the source with its copy, record by record. Pure.

A record is any hashable value. If the source has equal records, as after a retry of its producer, the copy
has the same number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts of records, summed over partitions with `+`."""

    written: int = 0
    """Committed at the source, in every incarnation of the topic."""
    arrived: int = 0
    """Records at the destination, including duplicates and foreign records."""
    lost: int = 0
    """Never arrived, although the topic exists or a later record of its incarnation arrived."""
    doubled: int = 0
    """Arrived again."""
    out_of_order: int = 0
    """First arrivals after the first arrival of a later record."""
    aborted: int = 0
    """Arrived although their transaction was aborted."""
    foreign: int = 0
    """Arrived but were never written, or with other contents."""
    left_behind: int = 0
    """End of a former incarnation of a topic, deleted before it was copied."""

    def __add__(self, other: Findings) -> Findings:
        names = [field.name for field in fields(self)]
        return Findings(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def violations(self, may_repeat: bool) -> dict[str, int]:
        """Return the counts that should be 0 but are not."""
        names = ["lost", "out_of_order", "aborted", "foreign", *([] if may_repeat else ["doubled"])]
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def compare(
    lives: Sequence[Sequence[Hashable]], copy: Iterable[Hashable], aborted: Collection[Hashable] = ()
) -> Findings:
    """Compare the copy of a partition with the records of each incarnation of its topic, oldest first.

    All records of the last incarnation must arrive, and of each former one all up to some record.
    """
    written = Counter[Hashable]()
    places: dict[tuple[Hashable, int], tuple[int, int]] = {}
    for life, log in enumerate(lives):
        for at, record in enumerate(log):
            written[record] += 1
            places[record, written[record]] = life, at
    seen: set[tuple[int, int]] = set()
    arrivals = Counter[Hashable]()
    arrived = doubled = disorder = strangers = ghosts = 0
    newest = (-1, -1)
    for record in copy:
        arrived += 1
        arrivals[record] += 1
        place = places.get((record, arrivals[record]))
        if place is None:
            if record in written:
                doubled += 1
            elif record in aborted:
                ghosts += 1
            else:
                strangers += 1
        else:
            seen.add(place)
            disorder += place < newest
            newest = max(newest, place)
    lost, left_behind = _missing([len(log) for log in lives], seen)
    return Findings(len(places), arrived, lost, doubled, disorder, ghosts, strangers, left_behind)


def _missing(sizes: Sequence[int], seen: set[tuple[int, int]]) -> tuple[int, int]:
    """Return the number of lost records, and of records deleted with their topic."""
    lost = left_behind = 0
    for life, size in enumerate(sizes):
        missing = [at for at in range(size) if (life, at) not in seen]
        if life == len(sizes) - 1:
            lost += len(missing)
            continue
        last = max((at for at in range(size) if (life, at) in seen), default=-1)
        lost += sum(at < last for at in missing)
        left_behind += sum(at > last for at in missing)
    return lost, left_behind


def repeated(copy: Iterable[Hashable]) -> list[tuple[int, int, int]]:
    """Return repeated runs of records: place of the first arrival, of the second, number of records.

    Places count records from the beginning of the partition.
    """
    first: dict[Hashable, int] = {}
    stretches: list[tuple[int, int, int]] = []
    for at, record in enumerate(copy):
        was = first.setdefault(record, at)
        if was == at:
            continue
        if stretches:
            origin, again, length = stretches[-1]
            if (origin + length, again + length) == (was, at):
                stretches[-1] = origin, again, length + 1
                continue
        stretches.append((was, at, 1))
    return stretches
