"""Comparison by offsets alone, against records of a model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.audit.counts import CountRules, count_copies
from mirror.audit.windows import WindowTally
from tests.examples import examples

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), max_size=12)


def runs_of(steps: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return runs with gaps at both sides before each."""
    runs, source, target = [], 0, 0
    for skipped, surplus, length in steps:
        source, target = source + skipped, target + surplus
        runs.append((source, target, length))
        source, target = source + length, target + length
    return runs


@given(STEPS, st.integers(0, 40), st.integers(0, 40), st.integers(0, 10), st.booleans(), st.booleans())
@settings(max_examples=examples(200))
def test_every_offset_is_counted_once(
    steps: list[tuple[int, int, int]], cut: int, target_end: int, tail: int, markers: bool, repeats: bool
) -> None:
    runs = runs_of(steps)
    copies = {first + n: copy + n for first, copy, length in runs for n in range(length)}
    here = {source for source in copies if source < cut}
    last = max((copies[source] for source in here), default=-1) + 1
    log_end = min(target_end, last + tail) if target_end < last else last + tail
    tally = WindowTally(10, 0)
    rules = CountRules(25, has_markers=markers, may_repeat=repeats)
    counts = count_copies(runs, (0, cut), (0, log_end), rules, tally).found.counts
    arrived = {copies[source] for source in here if copies[source] < log_end}
    assert counts.equal == len(arrived)
    assert counts.missing == len(here) - len(arrived)
    surplus = 0 if markers else log_end - len(arrived)
    assert (counts.duplicated, counts.foreign) == ((surplus, 0) if repeats else (0, surplus))
    window = tally.windows[20]
    assert (window.records, window.missing) == (counts.equal, counts.missing)
    assert window.duplicated + window.foreign == surplus
    for finding in window.findings:
        if finding.source_offset >= 0:
            assert copies[finding.source_offset] >= log_end
        else:
            assert finding.target_offset not in arrived
