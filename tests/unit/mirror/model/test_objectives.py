"""Test objectives in their textual form, and invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import OBJECTIVES, Objective, read_objective, read_objectives
from tests.builders import a_datastream

LINE = "p99.9 within 2000 ms over 300 s, 99.5 % over 7 d"
FULL = Objective(2000, 99.5, 99.9, 300, 7)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (LINE, FULL),
        ("p99.9 within 2s over 5m, 99.5% over 168h", FULL),
        ("  p99.9  within 2 s over 5 m , 99.5 %  over 7 d ", None),
        ("within 2 s, 99.5 %", Objective(2000, 99.5)),
        ("p50 within 1 h, 99 %", Objective(3_600_000, 99.0, 50.0)),
        ("within 1 d over 1 h,99 % over 90 d", Objective(86_400_000, 99.0, 99.0, 3600, 90)),
        ("within 2 s", None),
        ("p99 within 2, 99 %", None),
        ("p100 within 2 s, 99 %", None),
        ("p99 within 2 s, 0 %", None),
        ("p99 within 2 s over 500 ms, 99 %", None),
        ("p99 within 2 s over 1 d, 99 % over 36 h", None),
        ("p99 within 2 s over 61 m, 99 %", None),
        ("p99 within 2 s, 99 % over 91 d", None),
        ("p99 within 400 d, 99 %", None),
        ("p99 within ٢ s, 99 %", None),
        ("p99 within 0 ms, 99 %", None),
        (f"p99 within {'9' * 5000} ms, 99 %", None),
        (5, None),
        ("", None),
    ],
)
def test_a_line_is_one_objective_or_none(text: Any, meant: Objective | None) -> None:
    if meant is None:
        with pytest.raises(InvalidRequest):
            read_objective(text)
    else:
        assert read_objective(text) == meant
        assert read_objective(meant.text) == meant


@pytest.mark.parametrize(
    "values",
    [
        (0, 99.0),
        (True, 99.0),
        (5, 100.0),
        (5, float("nan")),
        (5, 99.0, 0.0),
        (5, 99.0, "99"),
        (5, 99.0, 99.0, 9),
        (5, 99.0, 99.0, 60, 0),
        (5, 99.0, 99.0, 60, 30.5),
    ],
    ids=str,
)
def test_values_are_bounded(values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest):
        Objective(*values)


def test_there_are_ten_at_most_and_none_twice() -> None:
    lines = [f"within {number} s, 99 %" for number in range(1, 12)]
    assert len(read_objectives("x", "\n".join(lines[:10]))) == 10
    for wrong in (lines, [lines[0], lines[0]]):
        with pytest.raises(InvalidRequest):
            read_objectives("x", "\n".join(wrong))


def test_a_former_version_keeps_what_it_does_not_know() -> None:
    """It knows `objective`, and accepts any metadata key that does not begin with its prefix."""
    datastream = a_datastream(objective=LatencyObjective(500), metadata={"owner": "me", OBJECTIVES: LINE})
    document = to_document(datastream)
    assert document["objective"] == {"milliseconds": 500, "percentile": 99.0}
    assert document["metadata"] == {"owner": "me", OBJECTIVES: LINE}
    assert not OBJECTIVES.startswith("headrace.")
    assert from_document(document).objectives == (FULL,)


def test_what_a_former_version_has_stored_has_the_one_objective() -> None:
    document = to_document(a_datastream(objective=LatencyObjective(500)))
    assert (from_document(document).objective, from_document(document).objectives) == (
        LatencyObjective(500),
        (),
    )


def test_a_damaged_line_is_a_damaged_definition() -> None:
    document = to_document(a_datastream())
    document["metadata"] = {"owner": "me", OBJECTIVES: "soon"}
    with pytest.raises(InvalidRequest, match="'soon'"):
        from_document(document)
