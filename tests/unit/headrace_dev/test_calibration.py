"""Test the evaluation of calibration samples."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from threading import Thread

import pytest

from headrace_dev.calibration.measure import CalibrationSample, sums_of, used_seconds
from mirror.errors import HeadraceError
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Headrace


def test_a_round_is_what_lies_between_its_samples() -> None:
    rounds = [
        (CalibrationSample(0.0, 1.0, 0, 0), CalibrationSample(1.0, 1.5, 5_000, 50)),
        (CalibrationSample(9.0, 7.0, 5_000, 50), CalibrationSample(11.0, 7.5, 10_000, 100)),
    ]
    found = sums_of(rounds, 10)
    assert (found.observations, found.seconds, found.cpu_seconds) == (2, 3.0, 1.0)
    assert (found.bytes_per_core_second, found.records, found.batches) == (10_000.0, 100, 10)
    assert found.error == pytest.approx(0.0)


@pytest.mark.parametrize(
    "rounds", [[], [(CalibrationSample(0.0, 1.0, 5, 5), CalibrationSample(1.0, 2.0, 5, 5))]]
)
def test_where_nothing_was_copied_nothing_is_said(
    rounds: list[tuple[CalibrationSample, CalibrationSample]],
) -> None:
    with pytest.raises(HeadraceError, match="too little"):
        sums_of(rounds, 1)


def test_the_time_of_a_process_is_what_it_has_computed() -> None:
    before, by_itself = used_seconds(os.getpid()), time.process_time()
    while time.process_time() - by_itself < 0.05:
        pass
    assert used_seconds(os.getpid()) - before == pytest.approx(time.process_time() - by_itself, abs=0.03)


def test_what_a_thread_has_computed_counts_when_it_has_ended() -> None:
    def compute() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    before = used_seconds(os.getpid())
    thread = Thread(target=compute)
    thread.start()
    thread.join()
    assert used_seconds(os.getpid()) - before >= 0.05


def test_of_a_process_that_has_ended_nobody_says_what_it_used() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(PATIENCE_SECONDS)
        with pytest.raises(HeadraceError, match=str(ended.pid)):
            used_seconds(ended.pid)


@pytest.mark.parametrize("seconds", ["nan", "9" * 400])
def test_an_impossible_duration_is_one_sentence(seconds: str, headrace_dev: Headrace) -> None:
    shown = headrace_dev("calibrate", "--seconds", seconds)
    assert shown.code == 2
    assert "--seconds" in shown.err
    assert "Traceback" not in shown.err
