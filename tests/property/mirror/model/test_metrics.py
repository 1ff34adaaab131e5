"""Latency histograms: buckets, sums, percentiles; and rows as encoded in the Avro topic."""

from __future__ import annotations

import io
import math

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.latency import LATENCY_BOUNDS_MS, LATENCY_BUCKETS, add_counts, latency_bucket, percentile_ms
from mirror.model.metrics import ChangeKind, MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, columns_of, row_of

latencies = st.floats(-1e6, 1e9, allow_nan=False)
percentiles = st.floats(0.001, 99.999)


def histogram(values: list[float]) -> tuple[int, ...]:
    counts = [0] * LATENCY_BUCKETS
    for value in values:
        counts[latency_bucket(value)] += 1
    return tuple(counts)


@given(latencies)
def test_a_latency_is_counted_between_the_bounds_of_its_bucket(latency: float) -> None:
    index = latency_bucket(latency)
    if index < len(LATENCY_BOUNDS_MS):
        assert latency <= LATENCY_BOUNDS_MS[index] * (1 + 1e-12)
    if index > 0:
        assert latency > LATENCY_BOUNDS_MS[index - 1] * (1 - 1e-12)


@given(st.integers(0, 18))
def test_a_bound_belongs_to_its_own_bucket(power: int) -> None:
    assert latency_bucket(2.0**power) == power
    assert latency_bucket(math.nextafter(2.0**power, math.inf)) in {power, power + 1}


@given(st.lists(st.floats(0.01, 262_144), min_size=1, max_size=60), percentiles)
def test_a_percentile_is_at_most_a_factor_two_off(values: list[float], percentile: float) -> None:
    rank = max(1, math.ceil(len(values) * percentile / 100))
    exact = sorted(values)[rank - 1]
    found = percentile_ms(histogram(values), percentile)
    assert found is not None
    if exact > 1:
        assert exact / 2 * (1 - 1e-9) <= found <= exact * 2 * (1 + 1e-9)
    else:
        assert 0 <= found <= 1


@given(st.lists(latencies, min_size=1, max_size=40), percentiles, percentiles)
def test_a_higher_percentile_is_no_lower(values: list[float], one: float, two: float) -> None:
    counts = histogram(values)
    low, high = (percentile_ms(counts, one_of) for one_of in sorted([one, two]))
    assert low is not None
    assert high is not None
    assert low <= high * (1 + 1e-9)


@given(st.lists(st.lists(latencies, max_size=10), max_size=5))
def test_histograms_add_up(lists: list[list[float]]) -> None:
    together = [value for values in lists for value in values]
    assert add_counts(histogram(values) for values in lists) == histogram(together)


def test_without_records_there_is_no_percentile() -> None:
    assert percentile_ms([0] * LATENCY_BUCKETS, 99) is None


texts = st.text(max_size=10)
longs = st.integers(-(2**63), 2**63 - 1)
metrics = st.builds(
    MirrorMetric,
    *[longs, longs, texts, texts, texts, texts, texts, *([longs] * 7)],
    st.lists(longs, min_size=LATENCY_BUCKETS, max_size=LATENCY_BUCKETS).map(tuple),
    longs,
    *([st.floats()] * 5),
)
FIRST_COLUMNS = [
    *("time_ms", "interval_ms", "instance", "task", "datastream", "source_cluster", "topic"),
    *("kafka_partition", "records_copied", "bytes_copied", "batches", "passthrough_batches"),
    *("lag_records", "lag_ms"),
    *(f"latency_{bucket:02}" for bucket in range(LATENCY_BUCKETS)),
]
"""Columns of the first version of the table."""
events = st.builds(
    PlacementEvent,
    *(longs, texts, st.sampled_from(ChangeKind), longs, *([texts] * 3), longs, *([texts] * 4)),
    *(st.floats(), texts),
)


@given(metrics | events)
def test_a_row_survives_its_own_schema(record: MirrorMetric | PlacementEvent) -> None:
    schema = fastavro.parse_schema(avro_schema(type(record)))
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, row_of(record))
    buffer.seek(0)
    found = fastavro.schemaless_reader(buffer, schema, None)
    assert isinstance(found, dict)
    assert list(found) == [column.name for column in columns_of(type(record))]
    wanted = row_of(record)
    assert {k: v for k, v in found.items() if v == v} == {k: v for k, v in wanted.items() if v == v}


@given(metrics)
def test_who_knows_only_the_older_columns_reads_newer_rows(record: MirrorMetric) -> None:
    """Rows have no header, so columns may only be appended: first in the instances, then in the table."""
    newest = avro_schema(MirrorMetric)
    columns = [field["name"] for field in newest["fields"]]
    assert columns[: len(FIRST_COLUMNS)] == FIRST_COLUMNS
    older = fastavro.parse_schema({**newest, "fields": newest["fields"][: len(FIRST_COLUMNS)]})
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(newest), row_of(record))
    buffer.seek(0)
    found = fastavro.schemaless_reader(buffer, older, None)
    assert isinstance(found, dict)
    assert found == {name: row_of(record)[name] for name in FIRST_COLUMNS}


def test_a_histogram_of_another_length_is_no_row() -> None:
    metric = MirrorMetric(1, 1, "i", "t", "d", "c", "t", 0, 0, 0, 0, 0, 0, 0, (1, 2, 3))
    with pytest.raises(ValueError, match="zip"):
        row_of(metric)
