"""Compares record counts using only offsets, without reading records. Pure.

Without compaction and transactions, every offset of a log has a record. The offset map contains the
acknowledged destination offset of each copied record. An offset in the map at or after the end of the
destination log is therefore a missing record. A destination offset that the map lacks, between copied
records, is a surplus record. Counts detect neither changed contents nor records that a broker lost in the
middle of a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror.audit.comparison import Comparison
from mirror.audit.verdicts import Finding, Verdict
from mirror.audit.windows import WindowTally


@dataclass(frozen=True, slots=True)
class CountRules:
    """Rules for comparing record counts.

    `timestamp`: timestamp of any record in the window of the offsets. `has_markers`: surplus offsets may be
    transaction markers or records of other producers. `may_repeat`: the delivery guarantee permits
    duplicates.
    """

    timestamp: int
    has_markers: bool = False
    may_repeat: bool = False


def count_copies(
    runs: Iterable[tuple[int, int, int]],
    source: tuple[int, int],
    target: tuple[int, int],
    rules: CountRules,
    tally: WindowTally,
) -> Comparison:
    """Compare the record counts of two offset ranges [start, end), using the runs of the offset map.

    A run consists of source offset, destination offset and length.
    """
    found = Comparison(source_end=source[1], target_end=target[1])
    counts, arrived, following = found.found.counts, 0, target[0]
    surplus_at = -1
    for first, copy, length in runs:
        start, end = max(first, source[0]), min(first + length, source[1])
        if start >= end:
            continue
        low, high = copy + start - first, copy + end - first
        there = max(min(high, target[1]) - max(low, target[0]), 0)
        arrived += there
        if there and surplus_at < 0 and max(low, target[0]) > following:
            surplus_at = following
        following = max(following, high)
        lost = max(high - max(low, target[1]), 0)
        if lost:
            _note(found, tally, Finding(Verdict.MISSING, end - lost, -1, rules.timestamp), lost)
            counts.missing += lost
    counts.equal = arrived
    tally.count("records", rules.timestamp, arrived)
    surplus = max(target[1] - target[0], 0) - arrived
    if surplus > 0 and not rules.has_markers:
        verdict = Verdict.DUPLICATED if rules.may_repeat else Verdict.FOREIGN
        place = surplus_at if surplus_at >= 0 else min(following, target[1] - 1)
        _note(found, tally, Finding(verdict, -1, place, rules.timestamp), surplus)
        setattr(counts, verdict.value, surplus)
    return found


def _note(found: Comparison, tally: WindowTally, finding: Finding, number: int) -> None:
    """Add a finding that represents `number` records."""
    found.found.note(finding)
    tally.note(finding)
    tally.count(finding.verdict.value, finding.timestamp, number - 1)
