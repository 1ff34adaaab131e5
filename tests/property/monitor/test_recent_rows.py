"""Incremental sums of the rows of the metrics topic equal one sum over the window."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Final

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData
from mirror.model.latency import add_counts
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_records
from monitor.latency import Source
from monitor.objectives.late_times import LateSpan
from monitor.recent_rows import RecentRows, columns_read
from tests.metrics_data import a_measurement

NOW_MS = 1_795_000_000_000
WINDOW_MS = 10_000


@st.composite
def a_row(draw: st.DrawFn) -> MirrorMetric:
    seconds = draw(st.integers(-15, -1))
    partition, late, lag = (draw(st.integers(0, most)) for most in (2, 3_000, 5))
    row = a_measurement("g", "c", partition, NOW_MS + seconds * 1_000, late, lag)
    return replace(row, topic=draw(st.sampled_from("ab")), lag_ms=draw(st.sampled_from([None, 0, 40])))


@given(st.lists(a_row(), unique_by=lambda row: (row.topic, row.kafka_partition, row.time_ms)), st.randoms())
def test_rows_in_any_order_are_one_sum(rows: list[MirrorMetric], shuffled: object) -> None:
    kept = RecentRows()
    order = list(rows)
    shuffled.shuffle(order)  # type: ignore[attr-defined]
    for row in order:
        kept.add(row_of(row))
    kept.forget(NOW_MS, 10 * WINDOW_MS)
    longer = kept.observe(NOW_MS, 10 * WINDOW_MS).get(Source("g", "c"), {})
    assert sum(one.records for one in longer.values()) == 10 * len(rows)
    found = kept.observe(NOW_MS, WINDOW_MS).get(Source("g", "c"), {})
    recent = [row for row in rows if row.time_ms > NOW_MS - WINDOW_MS - 1_000]
    assert set(found) == {row.topic for row in recent}
    for topic, observation in found.items():
        of_topic = [row for row in recent if row.topic == topic]
        assert observation.records == 10 * len(of_topic)
        assert list(observation.counts) == list(add_counts(row.latency_counts for row in of_topic))
        newest = {row.kafka_partition: row for row in sorted(of_topic, key=lambda row: row.time_ms)}
        known = [row for row in newest.values() if row.time_ms >= NOW_MS - WINDOW_MS]
        assert observation.lag_ms == max((row.lag_ms or 0 for row in known), default=0)


@given(st.lists(a_row(), min_size=1))
def test_what_is_read_of_rows_gives_what_whole_rows_give(rows: list[MirrorMetric]) -> None:
    """Rows are encoded as by instances, including unused columns."""
    written, read = (fastavro.parse_schema(one) for one in (avro_schema(MirrorMetric), columns_read()))
    part, whole = RecentRows(), RecentRows()
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, written, row_of(row))
        found = fastavro.schemaless_reader(io.BytesIO(buffer.getvalue()), read, None)
        assert isinstance(found, dict)
        part.add(found)
        whole.add(row_of(row))
    assert part.observe(NOW_MS, WINDOW_MS) == whole.observe(NOW_MS, WINDOW_MS)


@given(st.lists(a_row(), min_size=1), st.lists(a_row()))
def test_a_long_window_keeps_what_is_too_old_for_seconds(
    old: list[MirrorMetric], new: list[MirrorMetric]
) -> None:
    kept = RecentRows()
    for row in old:
        kept.add(row_of(row))
    later = NOW_MS + 200_000
    for now_ms in (NOW_MS, later):
        kept.forget(now_ms, 600_000)
    for row in new:
        kept.add(row_of(replace(row, time_ms=row.time_ms + 200_000)))
    found = kept.observe(later, 400_000)[Source("g", "c")]
    assert sum(one.records for one in found.values()) == 10 * (len(old) + len(new))
    recent = kept.observe(later, 100_000).get(Source("g", "c"), {})
    assert sum(one.records for one in recent.values()) == 10 * len(new)


@given(st.integers(NOW_MS + WINDOW_MS + 60_000, 2**62))
def test_what_says_that_it_was_measured_far_in_the_future_is_forgotten(time_ms: int) -> None:
    kept = RecentRows()
    kept.add(row_of(a_measurement("g", "c", 0, time_ms, 3, 7)))
    kept.forget(NOW_MS, WINDOW_MS)
    assert kept.observe(time_ms, WINDOW_MS) == kept.observe(time_ms, 100 * WINDOW_MS) == {}


@given(st.lists(a_row(), min_size=1), st.integers(1, 6))
def test_a_window_of_minutes_holds_what_a_shorter_one_holds(rows: list[MirrorMetric], minutes: int) -> None:
    kept = RecentRows()
    for row in rows:
        kept.add(row_of(row))
    kept.forget(NOW_MS, 600_000)
    found = kept.observe(NOW_MS, minutes * 60_000)[Source("g", "c")]
    assert sum(one.records for one in found.values()) == 10 * len(rows)


def test_a_row_that_counts_less_than_nothing_is_refused_and_changes_nothing() -> None:
    kept = RecentRows()
    row = row_of(a_measurement("g", "c", 0, NOW_MS - 1_000, 5, 1))
    kept.add(row)
    for column in ("records_copied", "latency_00"):
        with pytest.raises(CorruptData, match="negative count: -1"):
            kept.add({**row, column: -1})
    (found,) = kept.observe(NOW_MS, WINDOW_MS)[Source("g", "c")].values()
    assert found.records == 10


AGES: Final = (40, 1_000, 2_500)


@st.composite
def waiting_rows(draw: st.DrawFn) -> MirrorMetric:
    """Draw a row of the last quarter of an hour."""
    time_ms = NOW_MS - draw(st.integers(0, 900_000))
    late, lag_ms = draw(st.integers(0, 5_000)), draw(st.sampled_from([None, 0, 41, 1_000, 1_001, 9_000]))
    row = a_measurement("g", "c", draw(st.integers(0, 2)), time_ms, late, 1)
    return replace(row, topic=draw(st.sampled_from("ab")), lag_ms=lag_ms)


@given(st.lists(waiting_rows(), max_size=30))
def test_pieces_of_the_past_are_sums_of_their_rows_however_often_old_ones_are_put_together(
    rows: list[MirrorMetric],
) -> None:
    kept = RecentRows(min(AGES))
    for now_ms in range(NOW_MS - 900_000, NOW_MS + 10_000, 10_000):
        for row in rows:
            if now_ms - 10_000 < row.time_ms <= now_ms:
                kept.add(row_of(row))
        kept.forget(now_ms, 1_200_000)
    begin_ms = (NOW_MS - 900_000) // 60_000 * 60_000
    pieces = [TimeRangePiece(at, min(at + 60_000, NOW_MS + 1)) for at in range(begin_ms, NOW_MS + 1, 60_000)]
    for piece in pieces:
        found = kept.past(piece, AGES)
        own = [row for row in rows if piece.since_ms <= row.time_ms < piece.until_ms]
        assert set(found.places) == {("g", "c", row.topic) for row in own}
        for number, place in enumerate(found.places):
            mine = [row for row in own if row.topic == place[2]]
            counts = add_counts(row.latency_counts for row in mine)
            assert found.records[number] == sum(counts)
            for age in AGES:
                assert found.late[age][number] == pytest.approx(late_records(counts, age))
                slots = {row.time_ms // 10_000 for row in mine if (row.lag_ms or 0) > age}
                assert found.stale_seconds[age].get(place, 0.0) == 10.0 * len(slots)


def test_a_piece_that_begins_within_a_minute_begins_no_earlier_and_at_most_a_minute_late() -> None:
    kept = RecentRows()
    for ago_ms in range(0, 600_000, 5_000):
        kept.add(row_of(a_measurement("g", "c", 0, NOW_MS - ago_ms, 3, 0)))
    kept.forget(NOW_MS, 600_000)
    for length_ms in range(1_000, 500_000, 7_000):
        (records,) = kept.past(TimeRangePiece(NOW_MS - length_ms, NOW_MS + 1), [1_000]).records or [0]
        assert length_ms - 60_000 <= records / 10 * 5_000 <= length_ms + 5_000


def reported(time_ms: int, latency_ms: int, lag_ms: int | None, partition: int = 0) -> MirrorMetric:
    return replace(a_measurement("g", "c", partition, time_ms, latency_ms, 1), lag_ms=lag_ms)


def late_in(rows: list[MirrorMetric], since_ms: int = 0, least_ms: int = 3_000) -> list[LateSpan]:
    kept = RecentRows(least_ms)
    for row in rows:
        kept.add(row_of(row))
    kept.forget(NOW_MS, 100_000)
    found = kept.late([Source("g", "c")], since_ms).get(Source("g", "c"), {})
    assert kept.late([Source("other", "c")], since_ms) == {}
    spans = list(found["t"].spans) if found else []
    assert all(span.age_ms > least_ms for span in spans)
    return [span for span in spans if span.until_ms - span.oldest_ms > least_ms]


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        ([(0, 100, 0)], []),
        ([(0, 100, 5_000)], [(-5_000, 0)]),
        ([(0, 5_000, 0)], [(-8_192, 0)]),
        ([(-1_000, 100, 0), (0, 2_100, 0)], []),
        ([(-20_000, 100, 0), (0, 20_000, 0)], [(-20_000, 0)]),
        ([(-20_000, 100, 2_000), (0, 20_000, 0)], [(-22_000, 0)]),
        ([(-20_000, 100, None), (0, 20_000, 0)], [(-32_768, 0)]),
        ([(-500, 100, 9_000), (0, 100, 0)], [(-9_500, -500)]),
        ([(0, 900_000, None)], [(-262_144, 0)]),
    ],
)
def test_a_record_that_arrived_late_waited_at_most_since_the_last_report_of_its_partition(
    rows: list[tuple[int, int, int | None]], spans: list[tuple[int, int]]
) -> None:
    """Its bucket alone would be off by a factor of two."""
    found = late_in([reported(NOW_MS + at, latency, lag) for at, latency, lag in rows])
    assert [(oldest - NOW_MS, until - NOW_MS) for oldest, until, _ in found] == spans


@given(
    st.lists(
        st.tuples(
            st.integers(-60, 0),
            st.sampled_from([10, 3_500, 9_000, 40_000]),
            st.sampled_from([None, 0, 7_000]),
        ),
        max_size=20,
    )
)
def test_late_times_lie_within_what_was_reported(rows: list[tuple[int, int, int | None]]) -> None:
    found = late_in([reported(NOW_MS + 1_000 * at, latency, lag) for at, latency, lag in rows])
    for oldest, until, _ in found:
        assert until - oldest > 3_000
        assert any(NOW_MS + 1_000 * at == until for at, *_ in rows)
        assert oldest >= until - 65_536
    waits = [(at, lag) for at, _, lag in rows if lag]
    assert len(found) >= len({at for at, _ in waits})


def test_no_late_times_are_kept_where_none_are_needed() -> None:
    kept = RecentRows()
    kept.add(row_of(reported(NOW_MS, 60_000, 60_000)))
    assert kept.late([Source("g", "c")], 0) == {}


@pytest.mark.parametrize(
    ("rows", "age_ms"),
    [
        ([(0, -9_000, 60_000)], 60_000),
        ([(0, -9_000, 60_000), (0, -1_600, 0)], 60_000),
        ([(0, -9_000, 60_000), (0, -1_500, 0)], 0),
        ([(0, -9_000, 60_000), (1, 0, 0)], 60_000),
        ([(0, -9_000, 60_000), (0, 0, 0), (1, -50_000, 5_000)], 5_000),
    ],
)
def test_each_partition_has_to_report_again_before_its_lateness_is_over(
    rows: list[tuple[int, int, int]], age_ms: int
) -> None:
    """Clocks of instances may differ: 40 seconds between two of them say nothing."""
    kept = RecentRows(3_000)
    for partition, at, lag in rows:
        kept.add(row_of(reported(NOW_MS + at, 100, lag, partition)))
    kept.forget(NOW_MS, 100_000)
    assert kept.late([Source("g", "c")], 0)[Source("g", "c")]["t"].recent_age_ms == age_ms
