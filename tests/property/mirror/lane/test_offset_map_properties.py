"""The offset map, compared with a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import CHUNK, MapRun, OffsetMap, Precision
from mirror.lane.progress import LaneProgress, SourceIdentity, entries_of, forgotten_chunks
from mirror.lane.progress_decoder import read_progress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition

KEY = LaneKey(GroupName("g"), TopicPartition("t", 0))
RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=30)
"""(gap at the source, gap at the destination, records) from run to run."""


def build(steps: list[tuple[int, int, int]], offset_map: OffsetMap, truth: dict[int, int]) -> None:
    source = max(truth, default=-1) + 1
    target = max(truth.values(), default=99) + 1
    for source_hole, target_hole, count in steps:
        source, target = source + source_hole, target + target_hole
        offset_map.add(source, target, count)
        truth |= {source + step: target + step for step in range(count)}
        source, target = source + count, target + count


def check(offset_map: OffsetMap, truth: dict[int, int]) -> None:
    """Check the translation of every offset in both directions, and the counts of ranges."""
    for start in range(max(truth, default=0) + 3):
        for end in range(start + 1, start + 4):
            inside = [truth.get(offset) for offset in range(start, end)]
            assert offset_map.count(start, end) == sum(one is not None for one in inside)
            assert not offset_map.holds(start, end) or None not in inside
        assert offset_map.holds(start, start + 1) == (start in truth)
    for pairs, translate in (
        (truth, offset_map.forward),
        ({target: source for source, target in truth.items()}, offset_map.backward),
    ):
        if not pairs:
            assert translate(5).precision is Precision.BEFORE
            continue
        for offset in range(min(pairs) - 2, max(pairs) + 4):
            found = translate(offset)
            following = [pairs[key] for key in sorted(pairs) if key >= offset]
            if offset in pairs:
                assert found == (pairs[offset], Precision.EXACT)
            elif offset < min(pairs):
                assert found == (following[0], Precision.BEFORE)
            elif following:
                assert found == (following[0], Precision.NEXT)
            else:
                assert found == (max(pairs.values()) + 1, Precision.END)


@given(RUNS)
def test_every_offset_translates_both_ways(steps: list[tuple[int, int, int]]) -> None:
    offset_map, truth = OffsetMap(), dict[int, int]()
    build(steps, offset_map, truth)
    check(offset_map, truth)


@given(RUNS)
def test_neighbours_of_equal_distance_are_one_run(steps: list[tuple[int, int, int]]) -> None:
    offset_map, truth = OffsetMap(), dict[int, int]()
    build(steps, offset_map, truth)
    deltas = [target - source for source, target in sorted(truth.items())]
    sources = sorted(truth)
    expected = sum(
        1
        for index in range(len(sources))
        if index == 0 or sources[index] != sources[index - 1] + 1 or deltas[index] != deltas[index - 1]
    )
    assert len(offset_map) == expected


@given(RUNS, st.integers(0, 60), RUNS)
def test_after_a_rewind_the_newest_copy_counts(
    steps: list[tuple[int, int, int]], source: int, again: list[tuple[int, int, int]]
) -> None:
    offset_map, truth = OffsetMap(), dict[int, int]()
    build(steps, offset_map, truth)
    end = max(truth.values(), default=99) + 1
    offset_map.rewind(source)
    truth = {key: value for key, value in truth.items() if key < source}
    check(offset_map, truth)
    following, target = source, end
    for source_hole, target_hole, count in again:
        following, target = following + source_hole, target + target_hole
        offset_map.add(following, target, count)
        truth |= {following + step: target + step for step in range(count)}
        following, target = following + count, target + count
    check(offset_map, truth)


@given(RUNS, st.integers(90, 250))
def test_what_the_destination_lost_is_forgotten(steps: list[tuple[int, int, int]], target: int) -> None:
    offset_map, truth = OffsetMap(), dict[int, int]()
    build(steps, offset_map, truth)
    offset_map.forget_targets(target)
    check(offset_map, {key: value for key, value in truth.items() if value < target})


def long_map(runs: int) -> OffsetMap:
    offset_map = OffsetMap()
    for number in range(runs):
        offset_map.add(number * 10, number * 3, 2)
    return offset_map


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "store", "prune", "rewind"]), st.integers(1, 700)), max_size=12
    )
)
def test_maps_of_any_length_survive_being_stored_in_pieces(steps: list[tuple[str, int]]) -> None:
    offset_map, stored, number = OffsetMap(), dict[bytes, bytes | None](), 0
    for step, amount in steps:
        if step == "add":
            for _ in range(amount):
                offset_map.add(number * 10, number * 3, 2)
                number += 1
        elif step == "prune":
            before = offset_map.first_index
            offset_map.prune(amount * 10)
            stored |= dict(forgotten_chunks(KEY, before, offset_map.first_index))
        elif step == "rewind":
            number = max(number - amount, offset_map.first_index)
            offset_map.rewind(number * 10)
        else:
            ledger = Ledger(0)
            ledger.enter(OffsetClass.MIRRORED, number * 10)
            entries, sealed = entries_of(KEY, LaneProgress(ledger, offset_map), 5)
            assert len(entries) <= 1 + amount * 12 // CHUNK + 8
            stored |= dict(entries)
            offset_map.sealed = sealed
            kept = {key: value for key, value in stored.items() if value is not None}
            progress = read_progress(KEY, kept)
            assert progress is not None
            assert list(progress.offset_map) == list(offset_map)
            assert (progress.offset_map.first_index, progress.offset_map.sealed) == (
                offset_map.first_index,
                sealed,
            )


def test_a_stored_chunk_whose_last_run_is_cut_is_stored_again() -> None:
    offset_map, stored = long_map(CHUNK + 1), dict[bytes, bytes | None]()
    for cut in (CHUNK * 10, CHUNK * 10 - 9):
        ledger = Ledger(0)
        ledger.enter(OffsetClass.MIRRORED, cut)
        entries, offset_map.sealed = entries_of(KEY, LaneProgress(ledger, offset_map), 5)
        stored |= dict(entries)
        offset_map.rewind(cut)
    offset_map.add(CHUNK * 10, CHUNK * 3, 2)
    entries, _ = entries_of(KEY, LaneProgress(ledger, offset_map), 5)
    stored |= dict(entries)
    progress = read_progress(KEY, {key: value for key, value in stored.items() if value is not None})
    assert progress is not None
    assert list(progress.offset_map) == list(offset_map)


def test_a_long_map_is_written_once_and_then_only_its_end() -> None:
    offset_map = long_map(2_000)
    ledger = Ledger(0)
    ledger.enter(OffsetClass.MIRRORED, 20_000)
    progress = LaneProgress(ledger, offset_map)
    first, offset_map.sealed = entries_of(KEY, progress, 1)
    offset_map.add(20_000, 6_000, 2)
    second, _ = entries_of(KEY, progress, 2)
    assert [len(first), len(second)] == [8, 1]
    assert len(second[0][1] or b"") < 6_000


def test_pruning_keeps_whole_chunks_and_the_newest_run() -> None:
    offset_map = long_map(600)
    offset_map.prune(5_150)
    assert offset_map.first_index == 2 * CHUNK
    assert offset_map.forward(5_120) == (1_536, Precision.EXACT)
    offset_map.prune(10**9)
    assert offset_map.first_index == 2 * CHUNK
    assert offset_map.target_end == 599 * 3 + 2


def test_everything_about_a_lane_is_stored_and_read() -> None:
    ledger = Ledger(100)
    ledger.enter(OffsetClass.MIRRORED, 50)
    ledger.enter(OffsetClass.LOST, 7)
    offset_map = OffsetMap()
    offset_map.add(100, 0, 50)
    progress = LaneProgress(
        ledger,
        offset_map,
        SourceIdentity(b"\x01" * 16, 12),
        b"\x02" * 16,
        1_050,
        clean=True,
        life=2,
        pause={"reason": "full", "since_ms": 5, "attempt": 3},
        gaps=["7 offsets are gone"],
        target_loss="5 to 6 are gone",
    )
    entries, _ = entries_of(KEY, progress, 123)
    again = read_progress(KEY, {key: value for key, value in entries if value is not None})
    assert again is not None
    assert again.ledger.by_class() == ledger.by_class()
    assert list(again.offset_map) == [MapRun(100, 0, 50)]
    assert (again.next_offset, again.source, again.target_id) == (157, progress.source, progress.target_id)
    assert (again.clean, again.life, again.pause, again.gaps) == (True, 2, progress.pause, progress.gaps)
    assert (again.target_next, again.target_loss) == (1_050, "5 to 6 are gone")
