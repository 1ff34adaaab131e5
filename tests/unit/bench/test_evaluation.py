"""Arithmetic of the evaluation: the generated load, and the statistics of a recording."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import module_of, names
from bench.evaluation.course import HostObservation
from bench.evaluation.deviation import (
    Line,
    by_host,
    by_task,
    deviation,
    latency_counts,
    latency_line,
    line_through,
    mean_deviation,
    mean_rate_by_tasks,
    rate_by_tasks,
    task_seconds,
    tasks_at,
)
from bench.evaluation.fleets import FEWEST_TASKS, FIXED_TASKS, MOST_TASKS
from bench.evaluation.inbound import received_from
from bench.evaluation.measurements import host_loads
from bench.evaluation.pictures import draw
from bench.evaluation.rates import LOWEST_SHARE, PEAK, TOPICS, USABLE, Load
from bench.evaluation.records import HostLoad, PlanInForce, Recording, TaskLoad, WindowLatency, read, write
from bench.evaluation.report import UNKNOWN, audit_lines, lines
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket

BYTES = attrgetter("bytes")


def counts_at(milliseconds: float, records: int) -> tuple[int, ...]:
    found = [0] * LATENCY_BUCKETS
    found[latency_bucket(int(milliseconds))] = records
    return tuple(found)


RECORDING = Recording(
    loads=[
        TaskLoad(0, "candidate", "one", "t0", 100, 10),
        TaskLoad(0, "candidate", "two", "t1", 300, 10),
        TaskLoad(15, "candidate", "one", "t0", 100, 10),
        TaskLoad(15, "candidate", "two", "t1", 50, 10),
        TaskLoad(15, "candidate", "one", "t1", 50, 10),
        TaskLoad(15, "candidate", "two", "t2", 40, 10),
        TaskLoad(0, "control", "a", "c0", 400, 20),
    ],
    latencies=[
        WindowLatency(0, "candidate", counts_at(3, 20)),
        WindowLatency(15, "candidate", counts_at(900, 20)),
        WindowLatency(0, "control", counts_at(3, 0)),
    ],
    plans=[
        PlanInForce(0.0, "candidate", 1, ("t0", "t1"), 0),
        PlanInForce(20.0, "candidate", 2, ("t0", "t1", "t2"), 3),
        PlanInForce(0.0, "control", 1, ("c0", "c1"), 0),
    ],
    hosts=[
        HostLoad(0, "candidate", "one", 1.0, 1.0, 120, 100, 10),
        HostLoad(0, "candidate", "two", 2.0, 2.0, 340, 300, 20),
        HostLoad(15, "candidate", "one", 1.0, 1.5, 160, 150, 20),
        HostLoad(15, "candidate", "two", 2.0, 2.0, 100, 90, 20),
        HostLoad(0, "control", "a", 1.0, 1.0, 440, 400, 20),
    ],
)


def test_loads_that_are_the_same_do_not_deviate() -> None:
    found = deviation([5.0, 5.0, 5.0])
    assert found is not None
    assert (found.coefficient, found.largest) == (0, 1)


def test_deviation_is_that_of_all_loads_over_their_mean() -> None:
    found = deviation([100.0, 300.0])
    assert found is not None
    assert (found.coefficient, found.largest) == (0.5, 1.5)


@pytest.mark.parametrize("loads", [[], [0.0, 0.0]])
def test_without_load_nothing_is_known(loads: list[float]) -> None:
    assert deviation(loads) is None
    assert mean_deviation([loads]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 1e3))
def test_deviation_does_not_depend_on_the_unit(loads: list[float], unit: float) -> None:
    one, other = deviation(loads), deviation([load * unit for load in loads])
    if one is None or other is None:
        assert sum(loads) * min(unit, 1) < 1e-300
    else:
        assert other.coefficient == pytest.approx(one.coefficient, abs=1e-9)
        assert other.largest == pytest.approx(one.largest)


def test_a_task_counts_where_it_was_planned_throughout_also_without_load() -> None:
    assert by_task(RECORDING, "candidate", BYTES) == {0: [100, 300], 15: [100, 100]}
    assert by_task(RECORDING, "control", BYTES) == {0: [400, 0], 15: [0, 0]}


def test_instances_are_compared_by_their_weights() -> None:
    assert by_host(RECORDING, "candidate", BYTES) == {0: [100, 150], 15: [150, 45]}
    assert by_host(RECORDING, "candidate", attrgetter("inbound_bytes"))[0] == [120, 170]
    assert by_host(RECORDING, "nobody", BYTES) == {}


def test_a_line_is_found_where_tasks_differ() -> None:
    found = line_through([(1, 12), (2, 22), (4, 42)])
    assert found is not None
    assert (found.slope, found.intercept, found.r_squared) == pytest.approx((10, 2, 1))
    assert line_through([]) is None
    assert line_through([(3, 1), (3, 2)]) is None
    assert line_through([(1, 5), (2, 5)]) == Line(0, 5, 1)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10_000)), min_size=2, max_size=30),
    st.integers(1, 100),
)
def test_r_squared_is_a_share_and_does_not_depend_on_the_unit(
    points: list[tuple[int, int]], unit: int
) -> None:
    one, other = line_through(points), line_through([(x, y * unit) for x, y in points])
    if one is None or other is None:
        assert one is other is None
        assert len({x for x, _ in points}) == 1
    else:
        assert -1e-6 <= one.r_squared <= 1 + 1e-6
        assert other.r_squared == pytest.approx(one.r_squared, abs=1e-6)


def test_an_instance_has_one_point_in_each_window_and_one_for_the_run() -> None:
    assert rate_by_tasks(RECORDING, "candidate") == [(1, 10 / 15), (2, 20 / 15), (1.5, 20 / 15), (2, 20 / 15)]
    assert mean_rate_by_tasks(RECORDING, "candidate") == [(1.25, 1.0), (2, pytest.approx(20 / 15))]


def test_looks_at_instances_become_windows() -> None:
    observations = [
        HostObservation(0.2, "f", "one", 2.0, 1, 10),
        HostObservation(14.9, "f", "one", 2.0, 2, 5),
        HostObservation(15.1, "f", "one", 2.0, 2, 7),
        HostObservation(30.4, "f", "one", 2.0, 2, 100),
    ]
    found = host_loads(
        observations, [TaskLoad(0, "f", "one", "t", 8, 3), TaskLoad(0, "f", "one", "u", 1, 1)], 30
    )
    assert found == [HostLoad(0, "f", "one", 2.0, 1.5, 15, 9, 4), HostLoad(15, "f", "one", 2.0, 2, 7, 0, 0)]


def test_bytes_from_the_source_are_those_of_its_sockets() -> None:
    text = """\
ESTAB 0      0       127.0.0.1:36351    127.0.0.1:9092 users:(("python",pid=7,fd=5),("python",pid=8,fd=5))
\t bbr wscale:10,10 bytes_sent:5 bytes_acked:5 bytes_received:251647 segs_out:24
ESTAB 0      0               127.0.0.1:36352          127.0.0.1:9093 users:(("python",pid=7,fd=6))
\t bbr wscale:10,10 bytes_sent:5 bytes_received:99 segs_out:24
ESTAB 12     0                   [::1]:36353              [::1]:9092
\t bbr bytes_received:99
ESTAB 0      0               127.0.0.1:36354          127.0.0.1:9092 users:(("python",pid=9,fd=6))
\t bbr wscale:10,10 segs_out:24
"""
    assert received_from(text, 9092) == {(7, "127.0.0.1:36351"): 251647}
    assert received_from("", 9092) == {}


def test_task_seconds_are_those_of_the_plans() -> None:
    assert task_seconds(RECORDING, "candidate") == 2 * 20 + 3 * 10
    assert task_seconds(RECORDING, "control") == 2 * 30
    assert [tasks_at(RECORDING.plans, "candidate", at) for at in (0, 19.9, 20)] == [2, 2, 3]


def test_latency_is_that_of_all_records_and_unknown_without_any() -> None:
    assert sum(latency_counts(RECORDING, "candidate")) == 40
    line = latency_line(RECORDING, "candidate", 99)
    assert line[0] < 10 < line[15]
    assert latency_line(RECORDING, "control", 99) == {}


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(RECORDING, tmp_path / "run")
    assert read(tmp_path / "run") == RECORDING
    (tmp_path / "run" / "hosts.csv").unlink()
    assert read(tmp_path / "run").hosts == [], "runs that were recorded before there was such a file"


def test_the_report_has_a_column_for_each_fleet_and_marks_unknown_values() -> None:
    found = "\n".join(lines(RECORDING))
    assert "candidate" in found.splitlines()[0]
    assert found.count(UNKNOWN) == 6, "not exactly p50, p99 and the lines of the control are unknown"
    assert "2 to 3" in found


def test_the_audit_is_summed_over_topics() -> None:
    row = dict.fromkeys(("source_records", "destination_records"), 5)
    row |= dict.fromkeys(("missing", "duplicates", "foreign", "unjudged"), 0)
    found = audit_lines({"candidate": [row, row], "control": [row | {"missing": 1}]}, 10)
    assert found[1].split() == ["source", "records", "10", "5"]
    assert found[3].split() == ["missing", "0", "1"]


def test_plots_are_drawn(tmp_path: Path) -> None:
    files = draw(RECORDING, tmp_path)
    names = ["loads", "deviation", "latency", "tasks", "hosts"]
    assert [file.name for file in files] == [f"{name}.svg" for name in names]
    assert all("<svg" in file.read_text() for file in files)


@given(st.floats(-100, 1000), st.integers(0, 50))
def test_rates_add_up_to_the_total_and_no_partition_is_too_heavy(second: float, seed: int) -> None:
    load = Load(900.0, seed)
    rates = load.rates(second)
    assert {name: len(rates[name]) for name in rates} == {n: one.partitions for n, one in TOPICS.items()}
    values = [rate for partitions in rates.values() for rate in partitions.values()]
    assert sum(values) == pytest.approx(load.total(second))
    assert PEAK * LOWEST_SHARE * 0.999 <= sum(values) <= PEAK * 1.001
    assert max(values) < USABLE


def test_heavy_partitions_change_with_the_stretch_and_the_seed() -> None:
    load = Load(900.0)
    assert load.rates(10) != load.rates(160)
    assert load.rates(75) != Load(900.0, 2).rates(75)
    assert load.rates(75) == Load(900.0).rates(75)


def test_the_control_has_what_the_peak_needs() -> None:
    assert FEWEST_TASKS < PEAK / USABLE < FIXED_TASKS < MOST_TASKS


def test_a_room_that_is_one_measurement_goes_by_its_own_name() -> None:
    found = [name for name in names() if name.startswith("evaluation")]
    assert found == ["evaluation"]
    assert callable(module_of("evaluation").main)
