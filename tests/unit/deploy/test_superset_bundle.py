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
    (found,) = [one for one in of("datasets") if one["table_name"] == table.name]
    assert len(found["metrics"]) == len(METRICS[table.name])
    for expression in (one["expression"] for one in found["metrics"]):
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


def test_the_first_chart_is_coloured_by_the_share_of_a_task() -> None:
    (dashboard,) = of("dashboards")
    position = dashboard["position"]
    _, leading, _ = (position[row]["children"] for row in position["GRID_ID"]["children"])
    first = next(one for one in of("charts") if one["uuid"] == position[leading[0]]["meta"]["uuid"])
    rules = first["params"]["conditional_formatting"]
    assert [one.get("targetValue", one.get("targetValueLeft")) for one in rules] == [0.5, 1.0]
    assert {one["column"] for one in rules} == {first["params"]["timeseries_limit_metric"]}
    assert first["params"]["metrics"][0] == rules[0]["column"]


def test_every_axis_has_a_title_and_every_table_is_without_bars() -> None:
    for one in of("charts"):
        if one["viz_type"] == "table":
            assert one["params"]["show_cell_bars"] is False
        else:
            assert one["params"]["x_axis_title"]
            assert one["params"]["y_axis_title"]
            assert one["params"]["y_axis_format"]


def test_metrics_have_headings_with_units() -> None:
    for dataset in of("datasets"):
        for one in dataset["metrics"]:
            unit = {"_per_second": "bytes/s", "_ms": "ms"}
            for ending, text in unit.items():
                assert not one["metric_name"].endswith(ending) or text in one["verbose_name"]


def test_an_archive_has_the_given_capacity_and_the_folder_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.superset.bundle.FOLDER", tmp_path / "files")
    packed = tmp_path / "headrace.zip"
    main(["--usable", "123456", str(packed)])
    with ZipFile(packed) as found:
        texts = {name: found.read(name).decode() for name in found.namelist()}
    assert "123456.0" in texts["headrace/datasets/Pinot/partitionMetrics.yaml"]
    assert "123,456" in texts["headrace/dashboards/Headrace.yaml"]
    assert "123456" not in (tmp_path / "files/datasets/Pinot/partitionMetrics.yaml").read_text()


@pytest.mark.parametrize("usable", ["0", "-1", "x", "1.5", ""])
def test_a_capacity_that_is_none_is_refused(usable: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main([f"--usable={usable}"])
    assert refused.value.code == 2
