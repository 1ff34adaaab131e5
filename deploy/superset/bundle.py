"""The bundle for Superset, as code: `python -m deploy.superset.bundle` writes the files in this folder.

    python -m deploy.superset.bundle headrace.zip           also packs them
    superset import-dashboards -p headrace.zip -u admin     imports it, replacing an earlier import

`--usable BYTES_PER_SECOND` before the archives is the usable capacity of a task, whose shares they show. The
bundle contains the database (Pinot, through the dialect of `pinotdb`), two datasets, four charts and a
dashboard.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid5
from zipfile import ZipFile

import yaml

from mirror.model.rows import ColumnType
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, Table

FOLDER: Final = Path(__file__).with_name("headrace")
_NAMES: Final = UUID("5f0e4c1e-5d5b-4f0a-9a55-4a6f3b1d7c10")
_VERSION: Final = "1.0.0"
_DATABASE: Final = "Pinot"
_TYPES: Final = {
    ColumnType.STRING: "STRING",
    ColumnType.LONG: "LONG",
    ColumnType.DOUBLE: "DOUBLE",
}
USABLE: Final = 8_000_000
"""Usable bytes per second of a task unless given, as on the board for Grafana."""
_P95: Final = "percentile(inflow_bytes_per_second, 95)"
_SKEW: Final = "max(inflow_bytes_per_second) / avg(inflow_bytes_per_second)"
METRICS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    PARTITION_METRICS.name: {
        "share_of_a_task": (f"{_P95} / {{usable}}", "share of a task"),
        "p95_bytes_per_second": (_P95, "p95, bytes/s"),
        "largest_bytes_per_second": ("max(inflow_bytes_per_second)", "largest, bytes/s"),
        "mean_bytes_per_second": ("avg(inflow_bytes_per_second)", "mean, bytes/s"),
        "skew": (_SKEW, "largest over mean"),
        "partitions": ("distinctcount(kafka_partition)", "partitions"),
        "samples": ("count(*)", "samples"),
    },
    MIRROR_METRICS.name: {
        "records": ("sum(records_copied)", "records"),
        "bytes": ("sum(bytes_copied)", "bytes"),
        "bytes_per_second_of_a_minute": ("sum(bytes_copied) / 60", "bytes/s"),
        "longest_wait_ms": ("max(lag_ms)", "longest wait, ms"),
        "most_behind_records": ("max(lag_records)", "most records behind"),
        "passthrough_share": ("sum(passthrough_batches) / sum(batches)", "share of batches passed through"),
    },
}
"""SQL expressions for Pinot and headings, by table and name. `{usable}`: usable capacity of a task."""
_FORMATS: Final = {"share_of_a_task": ".0%", "skew": ".1f"}
_HOT: Final = "#FDE380"
_OFFENDING: Final = "#EFA1AA"
_HELP: Final = (
    "**Above 100 %** a partition exceeds a task (usable capacity: {usable} bytes/s), and no placement helps. "
    "Look up its topic in *Skewed topics*: if the largest partition carries twice the mean or more, the keys "
    "are skewed, so spread them; otherwise add partitions. Or raise the capacity of a task. **From 50 %** a "
    "partition leaves little room beside it."
)


def uuid_of(kind: str, name: str) -> str:
    """Return a constant UUID, so that an import replaces an earlier one."""
    return str(uuid5(_NAMES, f"{kind}/{name}"))


def _column(table: Table, name: str, kind: ColumnType) -> dict[str, Any]:
    is_time = name == table.time_column
    return {
        "column_name": name,
        "is_dttm": is_time,
        "is_active": True,
        "type": _TYPES[kind],
        "groupby": True,
        "filterable": True,
        "python_date_format": "epoch_ms" if is_time else None,
    }


def dataset(table: Table, usable: int = USABLE) -> dict[str, Any]:
    """Return the dataset of a table, with its columns and metrics. `usable`: bytes per second of a task."""
    return {
        "table_name": table.name,
        "main_dttm_col": table.time_column,
        "schema": None,
        "sql": None,
        "uuid": uuid_of("dataset", table.name),
        "database_uuid": uuid_of("database", _DATABASE),
        "version": _VERSION,
        "columns": [_column(table, column.name, column.type) for column in table.columns],
        "metrics": [
            {
                "metric_name": name,
                "verbose_name": heading,
                "expression": expression.format(usable=float(usable)),
            }
            for name, (expression, heading) in METRICS[table.name].items()
        ],
    }


def chart(title: str, table: Table, kind: str, description: str, **params: Any) -> dict[str, Any]:
    """Return a chart. `params`: parameters of its kind of chart."""
    return {
        "slice_name": title,
        "description": description,
        "viz_type": kind,
        "params": {"viz_type": kind, "time_range": "Last day", "row_limit": 1000, **params},
        "uuid": uuid_of("chart", title),
        "dataset_uuid": uuid_of("dataset", table.name),
        "version": _VERSION,
    }


def _colour(column: str, least: float, most: float | None, colour: str) -> dict[str, Any]:
    """Return the rule that colours cells from `least` on, and below `most` if given."""
    bounds = {"targetValue": least} if most is None else {"targetValueLeft": least, "targetValueRight": most}
    operator = "\N{GREATER-THAN OR EQUAL TO}" if most is None else "\N{LESS-THAN OR EQUAL TO} x <"
    return {"column": column, "operator": operator, "colorScheme": colour, "useGradient": False, **bounds}


def _table(title: str, description: str, columns: Sequence[str], **params: Any) -> dict[str, Any]:
    """Return a table of samples, whose cells have no bars: colours say what is too much."""
    formats = {
        name: {"d3NumberFormat": _FORMATS.get(name, ".3s")}
        for name in params["metrics"]
        if name in _FORMATS or name.endswith("_per_second")
    }
    return chart(
        title,
        PARTITION_METRICS,
        "table",
        description,
        query_mode="aggregate",
        groupby=list(columns),
        order_desc=True,
        row_limit=100,
        show_cell_bars=False,
        column_config=formats,
        **params,
    )


def _lines(title: str, description: str, by: str, metric: str, axis: str, unit: str) -> dict[str, Any]:
    """Return a chart of one metric by the minute. `axis`: title of its values; `unit`: Superset's format."""
    return chart(
        title,
        MIRROR_METRICS,
        "echarts_timeseries_line",
        description,
        x_axis=MIRROR_METRICS.time_column,
        time_grain_sqla="PT1M",
        groupby=[by],
        metrics=[metric],
        x_axis_title="time (UTC)",
        x_axis_title_margin=30,
        y_axis_title=axis,
        y_axis_title_margin=50,
        y_axis_title_position="Left",
        y_axis_format=unit,
    )


def charts() -> list[dict[str, Any]]:
    """Return the charts of the dashboard, in order: first what is wrong."""
    return [
        _table(
            "Offending partitions",
            "from 50 % of a task yellow, from 100 % red: offending",
            ("cluster", "topic", "kafka_partition"),
            metrics=["share_of_a_task", "p95_bytes_per_second", "largest_bytes_per_second", "samples"],
            timeseries_limit_metric="share_of_a_task",
            conditional_formatting=[
                _colour("share_of_a_task", 0.5, 1.0, _HOT),
                _colour("share_of_a_task", 1.0, None, _OFFENDING),
            ],
        ),
        _table(
            "Skewed topics",
            "from twice the mean yellow: caused by the keys, so that more partitions do not help",
            ("cluster", "topic"),
            metrics=["skew", "largest_bytes_per_second", "mean_bytes_per_second", "partitions"],
            timeseries_limit_metric="skew",
            conditional_formatting=[_colour("skew", 2.0, None, _HOT)],
        ),
        _lines(
            "Longest wait by datastream",
            "age of the oldest record that waits at the source",
            "datastream",
            "longest_wait_ms",
            "age of the oldest waiting record",
            "DURATION",
        ),
        _lines(
            "Bytes copied by task",
            "as fetched, mean of each minute",
            "task",
            "bytes_per_second_of_a_minute",
            "bytes/s",
            ".3s",
        ),
    ]


def _component(name: str, kind: str, parents: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, "parents": list(parents), "children": [], **more}


def _position(usable: int) -> dict[str, Any]:
    """Return the layout: a row of text, and two rows of two charts."""
    shown = charts()
    text = {"width": 12, "height": 14, "code": _HELP.format(usable=f"{usable:,}")}
    rows: list[list[dict[str, Any]]] = [[{"id": "MARKDOWN-help", "type": "MARKDOWN", "meta": text}]]
    rows += [
        [
            {
                "id": f"CHART-{one['uuid'][:8]}",
                "type": "CHART",
                "meta": {
                    "chartId": shown.index(one) + 1,  # an import replaces it
                    "width": width,
                    "height": 50,
                    "uuid": one["uuid"],
                    "sliceName": one["slice_name"],
                },
            }
            for one, width in zip(pair, widths, strict=True)
        ]
        for pair, widths in ((shown[:2], (7, 5)), (shown[2:], (6, 6)))
    ]
    names = [f"ROW-{number}" for number, _ in enumerate(rows)]
    found: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": _component("GRID_ID", "GRID", ["ROOT_ID"], children=names),
    }
    for name, row in zip(names, rows, strict=True):
        meta, children = {"background": "BACKGROUND_TRANSPARENT"}, [one["id"] for one in row]
        found[name] = _component(name, "ROW", ["ROOT_ID", "GRID_ID"], meta=meta, children=children)
        for one in row:
            found[one["id"]] = _component(
                one["id"], one["type"], ["ROOT_ID", "GRID_ID", name], meta=one["meta"]
            )
    return found


def dashboard(usable: int = USABLE) -> dict[str, Any]:
    """Return the dashboard. `usable`: usable bytes per second of a task."""
    return {
        "dashboard_title": "Headrace",
        "description": "Offending partitions and activity of the mirror",
        "slug": "headrace",
        "uuid": uuid_of("dashboard", "Headrace"),
        "position": _position(usable),
        "metadata": {"refresh_frequency": 60, "color_scheme": "supersetColors"},
        "version": _VERSION,
        "published": True,
    }


def files(usable: int = USABLE) -> dict[str, str]:
    """Return the text of all files, by path in the bundle. `usable`: usable bytes per second of a task."""
    database = {
        "database_name": _DATABASE,
        "sqlalchemy_uri": "pinot://pinot-broker:8099/query/sql?controller=http://pinot-controller:9000/",
        "expose_in_sqllab": True,
        "allow_csv_upload": False,
        "extra": {},
        "uuid": uuid_of("database", _DATABASE),
        "version": _VERSION,
    }
    found: dict[str, Any] = {
        # The format requires a timestamp; a constant one makes bundles of the same sources identical.
        "metadata.yaml": {"version": _VERSION, "type": "Dashboard", "timestamp": "2026-01-01T00:00:00+00:00"},
        f"databases/{_DATABASE}.yaml": database,
        "dashboards/Headrace.yaml": dashboard(usable),
    }
    for table in (PARTITION_METRICS, MIRROR_METRICS):
        found[f"datasets/{_DATABASE}/{table.name}.yaml"] = dataset(table, usable)
    for one in charts():
        found[f"charts/{one['slice_name'].replace(' ', '_')}.yaml"] = one
    return {path: yaml.safe_dump(json.loads(json.dumps(one)), sort_keys=False) for path, one in found.items()}


def main(arguments: list[str]) -> None:
    """Write the files, and pack them into each archive named in the arguments."""
    parser = argparse.ArgumentParser(prog="python -m deploy.superset.bundle", description=__doc__)
    parser.add_argument("--usable", type=_rate, default=USABLE, help="usable bytes/s of a task in archives")
    parser.add_argument("archives", nargs="*")
    given = parser.parse_args(arguments)
    for path, text in files().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")
    for name in given.archives:
        with ZipFile(name, "w") as packed:
            for path, text in files(given.usable).items():
                packed.writestr(f"headrace/{path}", text)


def _rate(text: str) -> int:
    found = int(text)
    if found <= 0:
        raise ValueError
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
