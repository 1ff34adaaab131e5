"""Growth between samples, compared with a model that processes one sample at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pmp.job.growth import EMPTY, FORGET_AFTER_MS, LONGEST_GAP_MS, UNKNOWN_RATE, Memory, Samples, advance


@dataclass(frozen=True)
class SlopeSample:
    """One sample. `rate`: last known one, for a remembered sample."""

    key: bytes
    time_ms: int
    broker: int
    size: float
    rate: float = UNKNOWN_RATE


@dataclass(frozen=True)
class Expected:
    """Expected result for a sample."""

    growth_bytes: float
    growth_ms: int
    inflow: float
    shrunk: bool


SAMPLED = 7.0


def samples_of(rows: list[SlopeSample]) -> Samples:
    """Return the samples as columns."""
    return Samples(
        key=pa.array([row.key for row in rows], pa.binary()),
        time_ms=np.array([row.time_ms for row in rows], np.int64),
        broker=np.array([row.broker for row in rows], np.int64),
        size_bytes=np.array([row.size for row in rows], np.float64),
        sampled=np.full(len(rows), SAMPLED),
    )


def plain(
    newest: dict[bytes, SlopeSample], rows: list[SlopeSample]
) -> tuple[dict[tuple[bytes, int], Expected], dict[bytes, SlopeSample]]:
    """Return the results by (key, time) and the remembered samples, by direct application of the rules."""
    kept: dict[tuple[bytes, int], Expected] = {}
    before: dict[bytes, SlopeSample] = {}
    everything = [*newest.values(), *rows]  # the sort is stable: the first of equals stays first
    for position in sorted(range(len(everything)), key=lambda n: everything[n].time_ms):
        row = everything[position]
        last = before.get(row.key)
        if last is not None and last.time_ms == row.time_ms:
            continue
        rate = row.rate if last is None or row.rate >= 0 else last.rate
        growth, step, shrunk = 0.0, 0, False
        if last is not None and last.broker == row.broker and row.time_ms - last.time_ms <= LONGEST_GAP_MS:
            shrunk = row.size < last.size
            is_possible = (row.size - last.size) * 1000 <= 1e11 * (row.time_ms - last.time_ms)
            if not shrunk and is_possible:
                growth, step = row.size - last.size, row.time_ms - last.time_ms
                rate = growth * 1000 / step
        if position >= len(newest):
            remembered = newest[row.key].rate if row.key in newest else UNKNOWN_RATE
            inflow = next((known for known in (rate, remembered) if known >= 0), SAMPLED)
            kept[row.key, row.time_ms] = Expected(growth, step, inflow, shrunk)
        before[row.key] = replace(row, rate=rate)
    return kept, {
        key: row if row.rate >= 0 or key not in newest else replace(row, rate=newest[key].rate)
        for key, row in before.items()
    }


rows_of = st.lists(
    st.builds(
        SlopeSample,
        key=st.sampled_from([b"0/a", b"1/a", b"0/b"]),
        time_ms=st.one_of(st.integers(0, 10), st.integers(0, 2 * LONGEST_GAP_MS)),
        broker=st.integers(1, 2),
        size=st.one_of(st.integers(0, 5).map(float), st.sampled_from([5e12, 4e18])),
    ),
    max_size=12,
)


@given(st.lists(rows_of, max_size=4))
def test_batches_advance_like_the_model(batches: list[list[SlopeSample]]) -> None:
    memory, newest = EMPTY, dict[bytes, SlopeSample]()
    for rows in batches:
        growth, memory = advance(memory, samples_of(rows))
        expected, newest = plain(newest, rows)
        found = zip(growth.growth_bytes, growth.growth_ms, growth.inflow, growth.shrunk, strict=True)
        kept = {
            (row.key, row.time_ms): Expected(*values)
            for row, values, keep in zip(rows, found, growth.keep, strict=True)
            if keep
        }
        assert kept == expected
        memory = Memory.from_bytes(memory.to_bytes())
        remembered = zip(
            memory.key.to_pylist(), memory.time_ms, memory.broker, memory.size_bytes, memory.rate, strict=True
        )
        assert {SlopeSample(*row) for row in remembered} == set(newest.values())


def test_a_silent_partition_is_forgotten() -> None:
    _, memory = advance(
        EMPTY, samples_of([SlopeSample(b"0/gone", 0, 1, 1.0), SlopeSample(b"0/new", FORGET_AFTER_MS, 1, 1.0)])
    )
    _, memory = advance(memory, samples_of([SlopeSample(b"0/new", FORGET_AFTER_MS + 1, 1, 1.0)]))
    assert memory.key.to_pylist() == [b"0/new"]


def test_a_memory_of_another_version_is_forgotten() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("key", pa.binary())], metadata={"memory": "0"})):
        pass
    assert len(Memory.from_bytes(bytes(sink.getvalue())).key) == 0
