"""Arithmetic of the evaluation: the generated load, and the statistics of a recording."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import module_of, names
from bench.evaluation.deviation import (
    by_instance,
    by_task,
    deviation,
    latency_counts,
    latency_line,
    mean_deviation,
    task_seconds,
    tasks_at,
)
from bench.evaluation.fleets import FEWEST_TASKS, FIXED_TASKS, MOST_TASKS
from bench.evaluation.pictures import draw
from bench.evaluation.rates import LOWEST_SHARE, PEAK, TOPICS, USABLE, Load
from bench.evaluation.records import PlanInForce, Recording, TaskLoad, WindowLatency, read, write
from bench.evaluation.report import UNKNOWN, audit_lines, lines
from mirror.model.metrics import LATENCY_BUCKETS, latency_bucket

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


def test_instances_count_in_every_window() -> None:
    assert by_instance(RECORDING, "candidate", BYTES) == {0: [100, 300], 15: [150, 90]}


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


def test_the_report_has_a_column_for_each_fleet_and_marks_unknown_values() -> None:
    found = "\n".join(lines(RECORDING))
    assert "candidate" in found.splitlines()[0]
    assert found.count(UNKNOWN) == 2, "not exactly p50 and p99 of the control are unknown"
    assert "2 to 3" in found


def test_the_audit_is_summed_over_topics() -> None:
    row = dict.fromkeys(("source_records", "destination_records"), 5)
    row |= dict.fromkeys(("missing", "duplicates", "foreign", "unjudged"), 0)
    found = audit_lines({"candidate": [row, row], "control": [row | {"missing": 1}]}, 10)
    assert found[1].split() == ["source", "records", "10", "5"]
    assert found[3].split() == ["missing", "0", "1"]


def test_plots_are_drawn(tmp_path: Path) -> None:
    files = draw(RECORDING, tmp_path)
    assert [file.name for file in files] == ["loads.svg", "deviation.svg", "latency.svg", "tasks.svg"]
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
