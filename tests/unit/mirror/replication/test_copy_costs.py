"""Test the CPU time that lanes cost a worker, and the part that a backlog would not cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror.lane.counters import LaneCounters
from mirror.model.metrics import MirrorMetric
from mirror.replication.reports.copy_costs import cost_of, share_cpu

KB = 1024
METRIC = MirrorMetric(0, 0, "", "", "", "", "", 0, 0, 0, 0, 0, 0, 0, ())


def done(**counts: int) -> LaneCounters:
    counters = LaneCounters()
    for name, count in counts.items():
        assert hasattr(counters, name)
        setattr(counters, name, count)
    return counters


def of_parts(parts: int, size: int, batches_each: int = 1) -> LaneCounters:
    """Return the counters of `parts` parts of `size` bytes, in large batches that pass unopened."""
    batches = parts * batches_each
    return done(fetched_parts=parts, bytes_copied=parts * size, batches=batches, source_batches=batches)


def metric(cpu_ms: float, spare_cpu_ms: float = 0.0) -> MirrorMetric:
    return replace(METRIC, cpu_ms=cpu_ms, spare_cpu_ms=spare_cpu_ms)


def test_a_backlog_spares_nothing() -> None:
    assert cost_of(of_parts(100, 256 * KB, 8)).spare_us == 0
    merged = 1_000 * 160 * KB
    backlog = done(
        fetched_parts=625,
        bytes_copied=merged,
        batches=1_000,
        small_batches=1_000,
        small_bytes=merged,
        merged_bytes=merged,
        source_batches=160_000,
    )
    assert cost_of(backlog).spare_us == 0


def test_small_parts_are_spared_and_large_batches_are_not() -> None:
    few, many = cost_of(of_parts(10, 256 * KB, 8)), cost_of(of_parts(80, 32 * KB))
    assert many.cpu_us > few.cpu_us
    assert many.cpu_us - many.spare_us == pytest.approx(few.cpu_us)


def test_small_batches_are_spared_for_what_merging_them_costs() -> None:
    """Compare 160 batches of 1 KB sent one by one with one merged batch, in parts of the same size."""
    size = 160 * KB
    alone = done(
        fetched_parts=1,
        bytes_copied=size,
        batches=160,
        source_batches=160,
        small_batches=160,
        small_bytes=size,
    )
    together = done(
        fetched_parts=1,
        bytes_copied=size,
        batches=1,
        source_batches=160,
        small_batches=1,
        small_bytes=size,
        merged_bytes=size,
    )
    one, other = cost_of(alone), cost_of(together)
    assert one.cpu_us - one.spare_us == pytest.approx(other.cpu_us - other.spare_us)


def test_what_is_decoded_or_compressed_anew_costs_more() -> None:
    plain = of_parts(10, 64 * KB)
    for more in ({"recompressed_bytes": 10**6}, {"encoded_records": 1_000}, {"merged_bytes": 10**6}):
        dearer = of_parts(10, 64 * KB)
        dearer.add(done(**more))
        assert cost_of(dearer).cpu_us > cost_of(plain).cpu_us


COUNTS = st.integers(0, 10**12)


COUNTED = (
    "fetched_parts",
    "bytes_copied",
    "batches",
    "source_batches",
    "small_batches",
    "small_bytes",
    "merged_bytes",
    "recompressed_bytes",
    "encoded_records",
)


@given(st.fixed_dictionaries(dict.fromkeys(COUNTED, COUNTS)))
def test_of_any_counts_some_or_none_of_the_cost_is_spare(counts: dict[str, int]) -> None:
    cost = cost_of(done(**counts))
    assert 0 <= cost.spare_us <= cost.cpu_us


def test_the_shares_of_cpu_time_add_up() -> None:
    shared = share_cpu([metric(1.0), metric(1.0, 0.5), metric(2.0), metric(0.0)], 400.0, 0.0)
    assert [one.cpu_ms for one in shared] == pytest.approx([100, 100, 200, 0])
    assert [one.spare_cpu_ms for one in shared] == pytest.approx([0, 50, 0, 0])
    idle = [metric(0.0)]
    assert share_cpu(idle, 5.0, 1_000.0) == idle


def test_what_each_second_costs_is_spare() -> None:
    (one,) = share_cpu([metric(115.0)], 20.0, 10_000.0)
    assert one.cpu_ms == pytest.approx(20.0)
    assert one.spare_cpu_ms == pytest.approx(10.0)


@example([(5e-324, 0.0)], 1.0, 0.0)
@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1)), max_size=20),
    st.floats(0, 1e6),
    st.floats(-1e6, 1e9),
)
def test_no_share_is_spared_more_than_it_has(
    costs: list[tuple[float, float]], cpu_ms: float, interval_ms: float
) -> None:
    shared = share_cpu([metric(cost, cost * part) for cost, part in costs], cpu_ms, interval_ms)
    assert len(shared) == len(costs)
    if any(cost for cost, _ in costs):
        assert sum(one.cpu_ms for one in shared) == pytest.approx(cpu_ms)
        assert all(0 <= one.spare_cpu_ms <= one.cpu_ms for one in shared)
