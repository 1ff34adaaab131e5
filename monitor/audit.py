"""Is everything at the destination that should be? Pure: compares contents, not only counts.

A topic's contents are a multiset of digests of (partition, key, value, headers, timestamp). What the source
has more of is missing, what the destination has more of is a duplicate (its digest is at the source) or
foreign.

Memory does not grow with the topic. A first pass adds the digests of each side up in a fixed number of
buckets; equal sums in a bucket mean equal contents, whatever their order. Only where sums differ a further
pass looks at single digests, of no more buckets at a time than fit in the room for them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.lane.ledger import Uncopied

BUCKETS: Final = 65_536
"""Of one side of a topic: 16 bytes each."""
ROOM: Final = 400_000
"""Digests of both sides that are held at a time: about 60 MB."""
MOST_PASSES: Final = 5
"""Looks at single digests, each of which reads both sides again."""
_MASK: Final = 2**64 - 1
_TOLD_EVERY: Final = 10_000


class Contents(Protocol):
    """One side of a topic, which can be read several times with the same result."""

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        """Hand over the digest of every record, at least 10 bytes each, in any order. Those that the
        checkpoints know not to be copied are counted instead."""
        ...


class Reading:
    """How many records were read of a topic, at both ends and in every pass; `tell` hears it now and then."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._records = 0

    def of(self, contents: Contents) -> Contents:
        """The same contents, with their records counted."""
        return _Counted(contents, self)

    def note(self) -> None:
        """One more record."""
        self._records += 1
        if self._records % _TOLD_EVERY == 0:
            self._tell(self._records)


class _Counted:
    def __init__(self, contents: Contents, reading: Reading) -> None:
        self._contents = contents
        self._reading = reading

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        def counted(digest: bytes) -> None:
            self._reading.note()
            take(digest)

        return self._contents.each(counted)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """One topic. `missing` + `left_out` + what arrived = `source_records`.

    `left_out`: records that were filtered or dead-lettered, as the checkpoints know of each. `unjudged`:
    source offsets behind the checkpoints, which are on their way. `at_least`: too much differs to look at all
    of it; the counts are lower bounds.
    """

    topic: str
    source_records: int
    destination_records: int
    missing: int
    duplicates: int
    foreign: int
    unjudged: int = 0
    at_least: bool = False
    left_out: int = 0

    @property
    def is_complete(self) -> bool:
        """Every source record is at the destination or was left out on purpose, and nothing is there that
        does not belong there."""
        return self.missing == 0 and self.foreign == 0


class Sums:
    """How many digests fell into each bucket, and their sum modulo 2^64."""

    def __init__(self) -> None:
        self.counts = array("Q", bytes(8 * BUCKETS))
        self.sums = array("Q", bytes(8 * BUCKETS))

    def add(self, digest: bytes) -> None:
        """Note one record."""
        bucket = bucket_of(digest)
        self.counts[bucket] += 1
        self.sums[bucket] = (self.sums[bucket] + int.from_bytes(digest[2:10], "big")) & _MASK


class Detail:
    """Single digests of one side, of some buckets only."""

    def __init__(self, buckets: Iterable[int]) -> None:
        self._buckets = frozenset(buckets)
        self.found: Counter[bytes] = Counter()

    def add(self, digest: bytes) -> None:
        """Note one record if it is in one of the buckets."""
        if bucket_of(digest) in self._buckets:
            self.found[digest] += 1


def bucket_of(digest: bytes) -> int:
    """Where the digest is counted."""
    return int.from_bytes(digest[:2], "big")


def audit_topic(
    topic: str, source: Contents, destination: Contents, unjudged: int = 0, room: int = ROOM
) -> AuditResult:
    """Compare the two sides. Raises what reading them raises."""
    here, there = Sums(), Sums()
    uncopied = source.each(here.add)
    destination.each(there.add)
    missing, duplicates, foreign = uncopied.missing, 0, 0
    mixed: list[tuple[int, int]] = []
    for bucket in _differing(here, there):
        if not there.counts[bucket]:
            missing += here.counts[bucket]
        elif not here.counts[bucket]:
            foreign += there.counts[bucket]
        else:
            mixed.append((bucket, here.counts[bucket] + there.counts[bucket]))
    portions, rest = portions_of(mixed, room)
    for buckets in portions:
        lost, again, strange = _compare(source, destination, buckets)
        missing, duplicates, foreign = missing + lost, duplicates + again, foreign + strange
    for bucket in rest:
        surplus = there.counts[bucket] - here.counts[bucket]
        missing += max(-surplus, 0 if surplus else 1)
        foreign += max(surplus, 0 if surplus else 1)
    totals = sum(here.counts) + sum(uncopied), sum(there.counts)
    return AuditResult(topic, *totals, missing, duplicates, foreign, unjudged, bool(rest), uncopied.left_out)


def _differing(here: Sums, there: Sums) -> list[int]:
    return [
        bucket
        for bucket in range(BUCKETS)
        if here.sums[bucket] != there.sums[bucket] or here.counts[bucket] != there.counts[bucket]
    ]


def portions_of(buckets: Sequence[tuple[int, int]], room: int = ROOM) -> tuple[list[list[int]], list[int]]:
    """(Bucket, its records): which are looked at together, and those that are not looked at: what one pass
    has no room for alone, and what more passes than there may be would be needed for."""
    portions: list[list[int]] = []
    rest, held = [], room
    for bucket, size in sorted(buckets, key=lambda one: one[1]):
        if held + size > room >= size and len(portions) < MOST_PASSES:
            portions.append([])
            held = 0
        if held + size <= room:
            portions[-1].append(bucket)
            held += size
        else:
            rest.append(bucket)
    return portions, rest


def _compare(source: Contents, destination: Contents, buckets: Sequence[int]) -> tuple[int, int, int]:
    """Missing, duplicate and foreign records of some buckets."""
    here, there = Detail(buckets), Detail(buckets)
    source.each(here.add)
    destination.each(there.add)
    surplus = there.found - here.found
    duplicates = sum(count for digest, count in surplus.items() if digest in here.found)
    return (here.found - there.found).total(), duplicates, surplus.total() - duplicates
