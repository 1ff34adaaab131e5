"""Audit of the destination's completeness. Pure: compares contents, not only counts.

The contents of a topic are a multiset of digests of (partition, key, value, headers, timestamp). A surplus
digest at the source is a missing record.

A surplus digest at the destination is a duplicate if the digest exists at the source, and otherwise a foreign
record. Memory does not grow with the topic. The first pass sums the digests of each side in a fixed number of
buckets; equal sums mean equal contents in any order. Later passes compare the digests of buckets with
different sums. Each pass takes as many buckets as fit in memory.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.lane.ledger import Uncopied

BUCKETS: Final = 65_536
"""Number of buckets for one side of a topic, 16 bytes each."""
ROOM: Final = 400_000
"""Maximum number of digests of both sides in memory, about 60 MB."""
MOST_PASSES: Final = 5
"""Maximum number of passes over single digests. Each pass reads both sides again."""
_MASK: Final = 2**64 - 1
_TOLD_EVERY: Final = 10_000


class AuditedTopic(Protocol):
    """One side of a topic. Repeated reads return the same records."""

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        """Pass the digest of every record (at least 10 bytes) to `take`, in any order.

        Return the counts of records that are not copied according to the checkpoints; their digests are not
        passed."""
        ...


class AuditProgress:
    """Number of records of a topic read so far, on both sides and in all passes; periodically passed to
    `on_progress`."""

    def __init__(self, on_progress: Callable[[int], None]) -> None:
        self._on_progress = on_progress
        self._records = 0

    def of(self, contents: AuditedTopic) -> AuditedTopic:
        """Return the contents, wrapped so that their records are counted."""
        return _CountedRecords(contents, self)

    def note(self) -> None:
        """Count a record."""
        self._records += 1
        if self._records % _TOLD_EVERY == 0:
            self._on_progress(self._records)


class _CountedRecords:
    def __init__(self, contents: AuditedTopic, reading: AuditProgress) -> None:
        self._contents = contents
        self._reading = reading

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        def counted(digest: bytes) -> None:
            self._reading.note()
            take(digest)

        return self._contents.each(counted)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result for one topic. `missing` + `left_out` + records that arrived = `source_records`.

    `left_out`: records filtered or dead-lettered according to the checkpoints. `unjudged`: number of source
    offsets after the checkpoints, which are still in flight. `at_least`: the counts are lower bounds, because
    there were too many differences to compare all.
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
        """True if every source record is at the destination or was omitted intentionally, and the destination
        has no foreign records."""
        return self.missing == 0 and self.foreign == 0


class DigestSums:
    """Number of digests in each bucket, and their sum modulo 2^64."""

    def __init__(self) -> None:
        self.counts = array("Q", bytes(8 * BUCKETS))
        self.sums = array("Q", bytes(8 * BUCKETS))

    def add(self, digest: bytes) -> None:
        """Add the digest of a record."""
        bucket = bucket_of(digest)
        self.counts[bucket] += 1
        self.sums[bucket] = (self.sums[bucket] + int.from_bytes(digest[2:10], "big")) & _MASK


class DigestDetail:
    """Digests of single records of one side, only for some buckets."""

    def __init__(self, buckets: Iterable[int]) -> None:
        self._buckets = frozenset(buckets)
        self.found: Counter[bytes] = Counter()

    def add(self, digest: bytes) -> None:
        """Add the digest of a record if it is in one of the buckets."""
        if bucket_of(digest) in self._buckets:
            self.found[digest] += 1


def bucket_of(digest: bytes) -> int:
    """Return the bucket of a digest."""
    return int.from_bytes(digest[:2], "big")


def audit_topic(
    topic: str, source: AuditedTopic, destination: AuditedTopic, unjudged: int = 0, room: int = ROOM
) -> AuditResult:
    """Compare the two sides. Raises the errors of reading the contents."""
    here, there = DigestSums(), DigestSums()
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


def _differing(here: DigestSums, there: DigestSums) -> list[int]:
    return [
        bucket
        for bucket in range(BUCKETS)
        if here.sums[bucket] != there.sums[bucket] or here.counts[bucket] != there.counts[bucket]
    ]


def portions_of(buckets: Sequence[tuple[int, int]], room: int = ROOM) -> tuple[list[list[int]], list[int]]:
    """Divide buckets, given with their number of records, into passes.

    Return the buckets of each pass, and the buckets that are not compared because they are too large for one
    pass or exceed the maximum number of passes."""
    portions: list[list[int]] = []
    rest, held = [], room
    for bucket, size in sorted(buckets, key=lambda pair: pair[1]):
        if held + size > room >= size and len(portions) < MOST_PASSES:
            portions.append([])
            held = 0
        if held + size <= room:
            portions[-1].append(bucket)
            held += size
        else:
            rest.append(bucket)
    return portions, rest


def _compare(source: AuditedTopic, destination: AuditedTopic, buckets: Sequence[int]) -> tuple[int, int, int]:
    """Return the numbers of missing, duplicate and foreign records in some buckets."""
    here, there = DigestDetail(buckets), DigestDetail(buckets)
    source.each(here.add)
    destination.each(there.add)
    surplus = there.found - here.found
    duplicates = sum(count for digest, count in surplus.items() if digest in here.found)
    return (here.found - there.found).total(), duplicates, surplus.total() - duplicates
