"""deploy/grafana: the committed files match the code, and their metrics and columns exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from promql_parser import parse

from deploy.grafana.boards import BOARDS, FOLDER, text_of
from headrace_dev.reference.of_metrics import described
from pinot.tables import PARTITION_METRICS

EXPORTED: Final = {one.name for metrics in described().values() for one in metrics}
FROM_THE_CLIENT: Final = {"process_resident_memory_bytes", "headrace_latency_seconds_bucket"}


def board(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def panels_of(name: str) -> Iterator[Any]:
    return (one for one in board(name)["panels"] if one["type"] != "row")


def targets() -> list[tuple[str, Any]]:
    return [
        (f"{name}: {panel['title']}", target)
        for name in BOARDS
        for panel in panels_of(name)
        for target in panel["targets"]
    ]


def checked_rows(expression: str) -> str:
    """Return the expression with Grafana's variables replaced."""
    return expression.replace("$__rate_interval", "5m").replace("$datastream", "orders")


EXPRESSIONS: Final = [(title, target["expr"]) for title, target in targets() if "expr" in target]
QUESTIONS: Final = [(title, target["pinotQlCode"]) for title, target in targets() if "pinotQlCode" in target]


@pytest.mark.parametrize("name", BOARDS)
def test_the_file_is_what_the_code_makes(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text == text_of(name), "run python -m deploy.grafana.boards"


def test_there_is_no_other_file() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(BOARDS)
    assert len({board(name)["uid"] for name in BOARDS}) == len(BOARDS)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_an_expression_is_one_and_its_metrics_exist(title: str, expression: str) -> None:
    text = re.sub(r'"[^"]*"', '""', str(parse(checked_rows(expression))))
    named = set(re.findall(r"\b(?:headrace|process)_\w+", text))
    assert named, title
    assert named <= EXPORTED | FROM_THE_CLIENT


def test_the_columns_of_a_question_exist() -> None:
    known = {column.name for column in PARTITION_METRICS.columns}
    assert len(QUESTIONS) == 4
    for title, text in QUESTIONS:
        columns = set(re.findall(r"\b(?:\w+_per_second|time_ms|kafka_partition|growth_\w+)\b", text))
        assert columns, title
        assert columns <= known, title
        assert "from partitionMetrics where " in text


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_says_what_it_shows_and_in_which_unit(name: str) -> None:
    for panel in panels_of(name):
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"].get("unit") or panel["fieldConfig"]["overrides"], panel[
            "title"
        ]


@pytest.mark.parametrize("name", BOARDS)
def test_panels_fit_the_grid_and_lie_beside_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", BOARDS)
def test_data_sources_are_variables_of_the_board(name: str) -> None:
    variables = {one["name"]: one for one in board(name)["templating"]["list"]}
    for panel in panels_of(name):
        uid = panel["datasource"]["uid"].strip("${}")
        assert variables[uid]["query"] == panel["datasource"]["type"]
