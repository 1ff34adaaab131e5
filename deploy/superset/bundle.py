"""The bundle for Superset, as code: `python -m deploy.superset.bundle` writes the files in this folder.

    python -m deploy.superset.bundle headrace.zip           also packs them
    superset import-dashboards -p headrace.zip -u admin     imports it, replacing an earlier import

It contains the database (Pinot, through the dialect of `pinotdb`), two datasets, four charts and a dashboard.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
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
METRICS: Final[Mapping[str, Mapping[str, str]]] = {
    PARTITION_METRICS.name: {
        "p95_bytes_per_second": "percentile(inflow_bytes_per_second, 95)",
        "largest_bytes_per_second": "max(inflow_bytes_per_second)",
        "mean_bytes_per_second": "avg(inflow_bytes_per_second)",
        "skew": "max(inflow_bytes_per_second) / avg(inflow_bytes_per_second)",
        "partitions": "distinctcount(kafka_partition)",
        "samples": "count(*)",
    },
    MIRROR_METRICS.name: {
        "records": "sum(records_copied)",
        "bytes": "sum(bytes_copied)",
        "longest_wait_ms": "max(lag_ms)",
        "most_behind_records": "max(lag_records)",
        "passthrough_share": "sum(passthrough_batches) / sum(batches)",
    },
}
"""SQL expressions for Pinot, by table and name."""


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


def dataset(table: Table) -> dict[str, Any]:
    """Return the dataset of a table, with its columns and metrics."""
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
            {"metric_name": name, "verbose_name": name.replace("_", " "), "expression": expression}
            for name, expression in METRICS[table.name].items()
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


def charts() -> list[dict[str, Any]]:
    """Return the charts of the dashboard, in order."""
    return [
        chart(
            "Busiest partitions",
            PARTITION_METRICS,
            "table",
            "compare with the usable bytes/s of a task: partitions above it are offending",
            query_mode="aggregate",
            groupby=["cluster", "topic", "kafka_partition"],
            metrics=["p95_bytes_per_second", "largest_bytes_per_second", "samples"],
            timeseries_limit_metric="p95_bytes_per_second",
            order_desc=True,
            row_limit=100,
        ),
        chart(
            "Skewed topics",
            PARTITION_METRICS,
            "table",
            "a skew far above 1 is caused by the keys; more partitions do not help",
            query_mode="aggregate",
            groupby=["cluster", "topic"],
            metrics=["largest_bytes_per_second", "mean_bytes_per_second", "skew", "partitions"],
            timeseries_limit_metric="skew",
            order_desc=True,
            row_limit=100,
        ),
        chart(
            "Longest wait by datastream",
            MIRROR_METRICS,
            "echarts_timeseries_line",
            "age of the oldest waiting record, in ms",
            x_axis=MIRROR_METRICS.time_column,
            time_grain_sqla="PT1M",
            groupby=["datastream"],
            metrics=["longest_wait_ms"],
        ),
        chart(
            "Bytes copied by task",
            MIRROR_METRICS,
            "echarts_timeseries_line",
            "as fetched, per minute",
            x_axis=MIRROR_METRICS.time_column,
            time_grain_sqla="PT1M",
            groupby=["task"],
            metrics=["bytes"],
        ),
    ]


def dashboard() -> dict[str, Any]:
    """Return the dashboard: two rows of two charts."""
    shown = charts()
    rows = [shown[:2], shown[2:]]
    position: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": {
            "id": "GRID_ID",
            "type": "GRID",
            "parents": ["ROOT_ID"],
            "children": [f"ROW-{number}" for number, _ in enumerate(rows)],
        },
    }
    for number, row in enumerate(rows):
        above = ["ROOT_ID", "GRID_ID"]
        position[f"ROW-{number}"] = {
            "id": f"ROW-{number}",
            "type": "ROW",
            "parents": above,
            "children": [f"CHART-{one['uuid'][:8]}" for one in row],
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        for one in row:
            name = f"CHART-{one['uuid'][:8]}"
            position[name] = {
                "id": name,
                "type": "CHART",
                "parents": [*above, f"ROW-{number}"],
                "children": [],
                "meta": {
                    "chartId": shown.index(one) + 1,  # an import replaces it
                    "width": 6,
                    "height": 50,
                    "uuid": one["uuid"],
                    "sliceName": one["slice_name"],
                },
            }
    return {
        "dashboard_title": "Headrace",
        "description": "Offending partitions and activity of the mirror",
        "slug": "headrace",
        "uuid": uuid_of("dashboard", "Headrace"),
        "position": position,
        "metadata": {"refresh_frequency": 60, "color_scheme": "supersetColors"},
        "version": _VERSION,
        "published": True,
    }


def files() -> dict[str, str]:
    """Return the text of all files, by path in the bundle."""
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
        "dashboards/Headrace.yaml": dashboard(),
    }
    for table in (PARTITION_METRICS, MIRROR_METRICS):
        found[f"datasets/{_DATABASE}/{table.name}.yaml"] = dataset(table)
    for one in charts():
        found[f"charts/{one['slice_name'].replace(' ', '_')}.yaml"] = one
    return {path: yaml.safe_dump(json.loads(json.dumps(one)), sort_keys=False) for path, one in found.items()}


def main(arguments: list[str]) -> None:
    """Write the files, and pack them into each archive named in the arguments."""
    for path, text in files().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")
    for name in arguments:
        with ZipFile(name, "w") as packed:
            for path, text in files().items():
                packed.writestr(f"headrace/{path}", text)


if __name__ == "__main__":
    main(sys.argv[1:])
