"""deploy/superset: the committed files match the code, are complete, and use existing columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zipfile import ZipFile

import pytest
import yaml

from deploy.superset.bundle import FOLDER, METRICS, files, main
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, Table

FOUND: Final[dict[str, Any]] = {path: yaml.safe_load(text) for path, text in files().items()}
TABLES: Final = (PARTITION_METRICS, MIRROR_METRICS)


def of(folder: str) -> list[Any]:
    return [one for path, one in FOUND.items() if path.startswith(f"{folder}/")]


def test_the_files_are_what_the_code_makes() -> None:
    there = {
        str(file.relative_to(FOLDER)): file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.yaml")
    }
    assert there == files(), "run python -m deploy.superset.bundle"


def test_it_packs_what_superset_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.superset.bundle.FOLDER", tmp_path / "files")
    packed = tmp_path / "headrace.zip"
    main([str(packed)])
    with ZipFile(packed) as found:
        assert set(found.namelist()) == {f"headrace/{path}" for path in FOUND}
    assert FOUND["metadata.yaml"]["type"] == "Dashboard"


def test_everything_has_a_name_of_its_own_that_stays() -> None:
    everything = [one for path, one in FOUND.items() if path != "metadata.yaml"]
    names = [one["uuid"] for one in everything]
    assert len(set(names)) == len(names)
    assert all(str(UUID(one)) == one for one in names)
    assert {one["version"] for one in FOUND.values()} == {"1.0.0"}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_dataset_is_its_table(table: Table) -> None:
    (found,) = [one for one in of("datasets") if one["table_name"] == table.name]
    assert [one["column_name"] for one in found["columns"]] == [one.name for one in table.columns]
    assert [one["column_name"] for one in found["columns"] if one["is_dttm"]] == [table.time_column]
    assert found["main_dttm_col"] == table.time_column
    (database,) = of("databases")
    assert found["database_uuid"] == database["uuid"]
    assert database["sqlalchemy_uri"].startswith("pinot://")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_is_asked_is_of_columns_that_there_are(table: Table) -> None:
    known = {one.name for one in table.columns}
    for expression in METRICS[table.name].values():
        named = set(re.findall(r"[a-z_]+(?![a-z_(])", expression)) - {"", "count"}
        assert named <= known


def test_charts_show_what_their_dataset_has() -> None:
    datasets = {one["uuid"]: one for one in of("datasets")}
    for chart in of("charts"):
        dataset = datasets[chart["dataset_uuid"]]
        columns = {one["column_name"] for one in dataset["columns"]}
        metrics = {one["metric_name"] for one in dataset["metrics"]}
        assert set(chart["params"]["groupby"]) <= columns
        assert set(chart["params"]["metrics"]) <= metrics
        assert chart["params"].get("x_axis", dataset["main_dttm_col"]) in columns
        assert chart["params"]["viz_type"] == chart["viz_type"]


def test_the_dashboard_shows_every_chart_once() -> None:
    (found,) = of("dashboards")
    position = found["position"]
    shown = [
        one["meta"]["uuid"] for one in position.values() if isinstance(one, dict) and one["type"] == "CHART"
    ]
    assert sorted(shown) == sorted(one["uuid"] for one in of("charts"))
    for name, one in position.items():
        if isinstance(one, dict):
            assert one["id"] == name
            assert set(one["children"]) <= set(position)
            assert set(one.get("parents", ())) <= set(position)
