"""Run the notebooks that need no server on data of the repository; the outputs are the stored ones."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bench.pages.rig.outputs import SVG
from tests.notebooks import NOTEBOOKS, cells_of, executed, outputs_of

pytestmark = pytest.mark.deep


_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d+)*")


def printed(name: str, environment: dict[str, str] | None = None) -> tuple[str, int]:
    """Return the text that the notebook wrote, and the number of its figures.

    Without an environment, it must be the stored text.
    """
    cells = executed(NOTEBOOKS / name, environment or {})
    text, figures = text_of(cells), len(outputs_of(cells, SVG))
    if environment is None:
        kept = cells_of(NOTEBOOKS / name)
        assert words_of(text) == words_of(text_of(kept)), "run `make notebooks`"
        assert numbers_of(text) == pytest.approx(numbers_of(text_of(kept)), rel=0.02, abs=0.02)
        assert figures == len(outputs_of(kept, SVG))
    return text, figures


def text_of(cells: Sequence[Any]) -> str:
    """Return all texts, without the names of figures."""
    return "\n".join(text for text in outputs_of(cells, "text/plain") if not text.startswith("<Figure"))


def words_of(text: str) -> list[str]:
    return _NUMBER.sub("", text).split()


def numbers_of(text: str) -> list[float]:
    """Return all numbers. They may differ slightly between processors."""
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def test_averages_of_cruise_control_mislead_and_growth_does_not() -> None:
    text, pictures = printed("02-cruise-control-samples.ipynb")
    (sampled,) = re.findall(r"sampled: median error ([\d.]+)%", text)
    (growth, worst) = re.findall(r"growth: median error ([\d.]+)%, worst ([\d.]+)%", text)[0]
    assert float(sampled) > 40
    assert float(growth) < 0.2
    assert float(worst) < 2
    assert pictures == 2


def test_skew_of_topics_is_measured_in_a_history_of_ones_own(tmp_path: Path) -> None:
    history = tmp_path / "loads.csv"
    with history.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("topic", "partition", "bytes_per_second"))
        rows.writerows([("even", number, 100) for number in range(4)])
        rows.writerows([("hot", 0, 3000), ("hot", 1, 0), ("silent", 0, 0)])
    text, pictures = printed(
        "03-skew-of-topics.ipynb", {"NOTEBOOK_LOADS": str(history), "NOTEBOOK_USABLE": "1000"}
    )
    assert re.search(r"even +4 +400 +1\.0+ +0\.25 +0\.0+ +0\.1\b", text)
    assert re.search(r"hot +2 +3000 +2\.0+ +1\.0+ +0\.5 +3\.0", text)
    assert re.search(r"hot +\d+ +[\d.]+ +3\.0+ +1\b", text), "one partition exceeds every task"
    assert pictures == 2


def test_skew_is_shown_without_a_history() -> None:
    text, _ = printed("03-skew-of-topics.ipynb")
    assert "90 partitions of 4 topics" in text


def test_a_plan_reaches_its_bounds_and_a_forged_one_is_refused() -> None:
    text, pictures = printed("04-plan-and-proof.ipynb")
    assert "gap: 0 tasks" in text
    (moved, bound) = re.findall(r"repair +\d+ +\d+ +([\d.]+) +([\d.]+)", text)[0]
    assert 0 < float(bound) <= float(moved) <= 1.3 * float(bound)
    assert "not published" in text
    assert pictures == 1


def test_a_forecast_takes_fewer_task_hours_than_the_last_days_maximum() -> None:
    text, pictures = printed("05-forecast.ipynb")
    (covered,) = re.findall(r"168 hours: (\d+)% at or below", text)
    assert int(covered) >= 85
    hours = {name: int(count) for name, count in re.findall(r"by the .*?\b(\w+) +(\d+)", text)}
    assert hours["forecast"] < hours["maximum"] < hours["weeks"]
    assert pictures == 4


def test_quiet_hours_are_those_that_carry_least_and_an_even_load_has_none() -> None:
    text, _ = printed("05-forecast.ipynb")
    (first, last, contrast) = re.findall(r"quiet hours: (\d+):00 to (\d+):00 UTC; .* ([\d.]+) times", text)[0]
    assert int(first) <= 3 < int(last), "the least of the day is at three o'clock"
    assert float(contrast) > 1.5
    assert re.search(r"\beven load: no\b", text)
    assert re.search(r"\bone day: no\b", text)


def test_two_fleets_are_compared_by_the_recording_that_ships() -> None:
    text, pictures = printed("06-evaluation.ipynb")
    assert re.search(r"\b15 minutes\b.*\bcandidate\b.*\bcontrol\b", text)
    hours = re.findall(r"task-hours +([\d.]+) +([\d.]+)", text)
    assert hours, text
    (candidate, control) = map(float, hours[0])
    assert 0 < candidate < control
    (evenness,) = re.findall(r"bytes over tasks, deviation/mean +([\d.]+) +([\d.]+)", text)
    assert float(evenness[0]) < float(evenness[1])
    assert re.search(r"inbound network over instances, deviation/mean +0\.\d+ +0\.\d+", text)
    assert pictures == 5
